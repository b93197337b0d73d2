// Asks servers as Telegraf's zookeeper input does, and prints what it made of their answers.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs/zookeeper"
)

type collected struct {
	telegraf.Accumulator
	errors []error
	fields map[string]interface{}
	tags   map[string]string
}

func (c *collected) AddFields(_ string, fields map[string]interface{}, tags map[string]string, _ ...time.Time) {
	c.fields, c.tags = fields, tags
}

func (c *collected) AddError(err error) {
	if err != nil {
		c.errors = append(c.errors, err)
	}
}

func main() {
	server := os.Args[1]
	input := &zookeeper.Zookeeper{Servers: []string{server}, Timeout: config.Duration(5 * time.Second), ParseFloats: "float"}
	var into collected
	if err := input.Gather(&into); err != nil {
		into.AddError(err)
	}
	for _, err := range into.errors {
		fmt.Fprintln(os.Stderr, err)
	}
	fmt.Println("state", into.tags["state"])
	names := make([]string, 0, len(into.fields))
	for name := range into.fields {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("%s %T %v\n", name, into.fields[name], into.fields[name])
	}
	if len(into.errors) > 0 {
		os.Exit(1)
	}
}
