// go-zookeeper/zk: one feature after the other; see ../programs.py for what is printed.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const wait = 30 * time.Second

var top string

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func expect(what string, got, wanted interface{}) {
	if got != wanted {
		panic(fmt.Sprintf("%s: %v, not %v", what, got, wanted))
	}
}

func must(err error) {
	if err != nil {
		panic(err.Error())
	}
}

func fails(wanted, err error) {
	if !errors.Is(err, wanted) {
		panic(fmt.Sprintf("%v, where %v was expected", err, wanted))
	}
}

func create(c *zk.Conn, path, data string, flags int32) string {
	made, err := c.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	must(err)
	return made
}

func session(c *zk.Conn) {
	until := time.Now().Add(wait)
	for c.State() != zk.StateHasSession && time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond)
	}
	expect("state", c.State(), zk.StateHasSession)
	create(c, top, "", 0)
}

func nodes(c *zk.Conn) {
	create(c, top+"/a", "one", 0)
	_, err := c.Create(top+"/a", nil, 0, zk.WorldACL(zk.PermAll))
	fails(zk.ErrNodeExists, err)
	data, stat, err := c.Get(top + "/a")
	must(err)
	expect("data", string(data), "one")
	expect("length", stat.DataLength, int32(3))
	names, _, err := c.Children(top)
	must(err)
	expect("children", strings.Join(names, ","), "a")
	_, _, err = c.Get(top + "/nobody")
	fails(zk.ErrNoNode, err)
	must(c.Delete(top+"/a", -1))
	there, _, err := c.Exists(top + "/a")
	must(err)
	expect("exists", there, false)
}

func versions(c *zk.Conn) {
	create(c, top+"/v", "0", 0)
	stat, err := c.Set(top+"/v", []byte("1"), 0)
	must(err)
	expect("version", stat.Version, int32(1))
	_, err = c.Set(top+"/v", []byte("2"), 0)
	fails(zk.ErrBadVersion, err)
	fails(zk.ErrBadVersion, c.Delete(top+"/v", 0))
}

func sequence(c *zk.Conn) {
	create(c, top+"/s", "", 0)
	for number := 0; number < 3; number++ {
		made := create(c, top+"/s/n-", "", zk.FlagSequence)
		expect("path", made, fmt.Sprintf("%s/s/n-%010d", top, number))
	}
}

func ephemerals(c *zk.Conn) {
	create(c, top+"/e", "", zk.FlagEphemeral)
	_, stat, err := c.Exists(top + "/e")
	must(err)
	expect("owner", stat.EphemeralOwner, c.SessionID())
	_, err = c.Create(top+"/e/x", nil, 0, zk.WorldACL(zk.PermAll))
	fails(zk.ErrNoChildrenForEphemerals, err)
}

func hear(events <-chan zk.Event, wanted zk.EventType) {
	select {
	case event := <-events:
		expect("event", event.Type, wanted)
		expect("path", event.Path, top+"/w")
	case <-time.After(wait):
		panic("no event came")
	}
}

func watches(c *zk.Conn) {
	_, _, events, err := c.ExistsW(top + "/w")
	must(err)
	create(c, top+"/w", "", 0)
	hear(events, zk.EventNodeCreated)
	_, _, events, err = c.GetW(top + "/w")
	must(err)
	_, err = c.Set(top+"/w", []byte("1"), -1)
	must(err)
	hear(events, zk.EventNodeDataChanged)
	_, _, events, err = c.ChildrenW(top + "/w")
	must(err)
	create(c, top+"/w/x", "", 0)
	hear(events, zk.EventNodeChildrenChanged)
	must(c.Delete(top+"/w/x", -1))
	_, _, events, err = c.ExistsW(top + "/w")
	must(err)
	must(c.Delete(top+"/w", -1))
	hear(events, zk.EventNodeDeleted)
}

func multi(c *zk.Conn) {
	_, err := c.Multi(
		&zk.CreateRequest{Path: top + "/m", Acl: zk.WorldACL(zk.PermAll)},
		&zk.SetDataRequest{Path: top + "/m", Data: []byte("1"), Version: 0},
		&zk.CheckVersionRequest{Path: top + "/m", Version: 1},
	)
	must(err)
	_, err = c.Multi(
		&zk.DeleteRequest{Path: top + "/m", Version: -1},
		&zk.CheckVersionRequest{Path: top + "/nobody", Version: 0},
	)
	fails(zk.ErrNoNode, err)
	there, _, err := c.Exists(top + "/m")
	must(err)
	expect("exists", there, true)
}

func acls(c *zk.Conn) {
	must(c.AddAuth("digest", []byte("ann:secret")))
	_, err := c.Create(top+"/mine", nil, 0, zk.DigestACL(zk.PermAll, "ann", "secret"))
	must(err)
	_, _, err = c.Get(top + "/mine")
	must(err)
	_, err = c.Create(top+"/closed", nil, 0, zk.WorldACL(zk.PermRead))
	must(err)
	_, err = c.Set(top+"/closed", []byte("1"), -1)
	fails(zk.ErrNoAuth, err)
}

func reconnect(c *zk.Conn) {
	id := c.SessionID()
	until := time.Now().Add(wait)
	for {
		_, stat, err := c.Exists(top + "/e")
		if err == nil {
			expect("owner", stat.EphemeralOwner, id)
			expect("session", c.SessionID(), id)
			return
		}
		if time.Now().After(until) {
			panic(err.Error())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func attempt(name string, feature func(*zk.Conn), c *zk.Conn) {
	defer func() {
		if why := recover(); why != nil {
			fmt.Printf("failed %s: %v\n", name, why)
		} else {
			fmt.Printf("ok %s\n", name)
		}
	}()
	feature(c)
}

func main() {
	top = os.Args[2]
	c, _, err := zk.Connect(strings.Split(os.Args[1], ","), 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer c.Close()
	features := []struct {
		name string
		run  func(*zk.Conn)
	}{
		{"session", session}, {"nodes", nodes}, {"versions", versions}, {"sequence", sequence},
		{"ephemerals", ephemerals}, {"watches", watches}, {"multi", multi}, {"acls", acls},
	}
	for _, feature := range features {
		attempt(feature.name, feature.run, c)
	}
	fmt.Println("restart")
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(line) == "done" {
		attempt("reconnect", reconnect, c)
	}
}
