// node-zookeeper-client: one feature after the other; see ../programs.py for what is printed.
'use strict';

const readline = require('node:readline');
const zookeeper = require('node-zookeeper-client');

const [hosts, top] = process.argv.slice(2);
const { CreateMode, Exception, Event, ACL, Permission, Id } = zookeeper;
const WAIT_MS = 30000;

const client = zookeeper.createClient(hosts, { sessionTimeout: 10000, retries: 30 });
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// The library calls back with an error first; `call` makes promises of that.
function call(name, ...args) {
  return new Promise((resolve, reject) => {
    client[name](...args, (error, ...results) => (error ? reject(error) : resolve(results)));
  });
}

function inTime(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come within ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function expect(what, got, wanted) {
  if (got !== wanted) throw new Error(`${what}: ${got}, not ${wanted}`);
}

async function fails(code, promise) {
  try {
    await promise;
  } catch (error) {
    expect('the error', error.code, code);
    return;
  }
  throw new Error(`nothing failed, where ${code} was expected`);
}

function createPlain(path, data = '', mode = CreateMode.PERSISTENT) {
  return call('create', path, Buffer.from(data), ACL.OPEN_ACL_UNSAFE, mode);
}

const features = {
  async session() {
    const connected = new Promise((resolve) => client.once('connected', resolve));
    client.connect();
    await inTime(connected, 'the connection');
    expect('the length of the session id', client.getSessionId().length, 8);
    await createPlain(top);
  },

  async nodes() {
    await createPlain(`${top}/a`, 'one');
    await fails(Exception.NODE_EXISTS, createPlain(`${top}/a`));
    const [data, stat] = await call('getData', `${top}/a`);
    expect('data', data.toString(), 'one');
    expect('length', stat.dataLength, 3);
    const [names] = await call('getChildren', top);
    expect('children', names.join(), 'a');
    await fails(Exception.NO_NODE, call('getData', `${top}/nobody`));
    await call('remove', `${top}/a`, -1);
    const [gone] = await call('exists', `${top}/a`);
    expect('gone', gone, null);
  },

  async versions() {
    await createPlain(`${top}/v`, '0');
    const [stat] = await call('setData', `${top}/v`, Buffer.from('1'), 0);
    expect('version', stat.version, 1);
    await fails(Exception.BAD_VERSION, call('setData', `${top}/v`, Buffer.from('2'), 0));
    await fails(Exception.BAD_VERSION, call('remove', `${top}/v`, 0));
  },

  async sequence() {
    await createPlain(`${top}/s`);
    for (let number = 0; number < 3; number++) {
      const [path] = await createPlain(`${top}/s/n-`, '', CreateMode.PERSISTENT_SEQUENTIAL);
      expect('path', path, `${top}/s/n-${String(number).padStart(10, '0')}`);
    }
  },

  async ephemerals() {
    await createPlain(`${top}/e`, '', CreateMode.EPHEMERAL);
    const [stat] = await call('exists', `${top}/e`);
    expect('owner', stat.ephemeralOwner.toString('hex'), client.getSessionId().toString('hex'));
    await fails(Exception.NO_CHILDREN_FOR_EPHEMERALS, createPlain(`${top}/e/x`));
  },

  async watches() {
    const watched = async (arm, act, type) => {
      const event = new Promise((resolve) => arm(resolve));
      await act();
      const told = await inTime(event, 'the event');
      expect('type', told.getType(), type);
      expect('path', told.getPath(), `${top}/w`);
    };
    const exists = (resolve) => call('exists', `${top}/w`, resolve);
    await watched(exists, () => createPlain(`${top}/w`), Event.NODE_CREATED);
    await watched(exists, () => call('setData', `${top}/w`, Buffer.from('1'), -1), Event.NODE_DATA_CHANGED);
    await watched(
      (resolve) => call('getChildren', `${top}/w`, resolve),
      () => createPlain(`${top}/w/x`),
      Event.NODE_CHILDREN_CHANGED,
    );
    await call('remove', `${top}/w/x`, -1);
    await watched(exists, () => call('remove', `${top}/w`, -1), Event.NODE_DELETED);
  },

  async multi() {
    const commit = (transaction) => new Promise((resolve, reject) => {
      transaction.commit((error, results) => (error ? reject(Object.assign(error, { results })) : resolve(results)));
    });
    const good = client.transaction().create(`${top}/m`).setData(`${top}/m`, Buffer.from('1'), 0).check(`${top}/m`, 1);
    await commit(good);
    await fails(Exception.NO_NODE, commit(client.transaction().remove(`${top}/m`, -1).check(`${top}/nobody`, 0)));
    const [stat] = await call('exists', `${top}/m`);
    expect('version', stat.version, 1);
  },

  async acls() {
    client.addAuthInfo('digest', Buffer.from('ann:secret'));
    await call('create', `${top}/mine`, Buffer.from('x'), ACL.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
    await call('getData', `${top}/mine`);
    const [acls] = await call('getACL', `${top}/mine`);
    expect('scheme', acls[0].id.scheme, 'digest');
    const readOnly = [new ACL(Permission.READ, Id.ANYONE_ID_UNSAFE)];
    await call('create', `${top}/closed`, Buffer.from(''), readOnly, CreateMode.PERSISTENT);
    await fails(Exception.NO_AUTH, call('setData', `${top}/closed`, Buffer.from('1'), -1));
  },

  async reconnect() {
    const id = client.getSessionId().toString('hex');
    const [stat] = await inTime(call('exists', `${top}/e`), 'the answer');
    expect('the session', client.getSessionId().toString('hex'), id);
    expect('the owner', stat && stat.ephemeralOwner.toString('hex'), id);
  },
};

async function attempt(name) {
  try {
    await inTime(features[name](), name);
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`failed ${name}: ${error.message}`);
  }
}

async function main() {
  for (const name of Object.keys(features)) {
    if (name === 'reconnect') {
      console.log('restart');
      const { value } = await input.next();
      if (value !== 'done') break;
    }
    await attempt(name);
  }
  client.close();
  setTimeout(() => process.exit(0), 500).unref();
  process.stdin.destroy();
}

main();
