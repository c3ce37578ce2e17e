//! What a plugin may try: each a function body that ends well where it got its way, with the error that it is to meet.
//!
//! `t` holds what it aims at: `victim`, a process of the same user; `worker`, the process of another plugin; `secret`,
//! a file outside; `dir`, a folder of its own for each attempt with a `file` in it; `port`, and `path`, where somebody
//! listens; `name`, which is free. The gateway is its parent process.

/// One attempt.
pub struct Attempt {
    /// What it tries.
    pub name: &'static str,
    /// What it meets.
    pub denied: &'static str,
    /// What it does.
    pub body: &'static str,
}

const fn at(name: &'static str, denied: &'static str, body: &'static str) -> Attempt {
    Attempt { name, denied, body }
}

/// What is around each body.
pub const AROUND: &str = r#"
import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
const [fs, net, os, cp] = ['fs', 'net', 'os', 'child_process'].map((name) => require(`node:${name}`));
const until = (emitter, event) => new Promise((done, fail) => emitter.once(event, done).once('error', fail));
const ended = ({ error, status }) => { if (error || status !== 0) throw error ?? 'it did not run'; };
// Without the limit each thread of Node.js 24 claims 512 MiB for its code.
const thread = (code) => until(new (require('worker_threads').Worker)(code,
  { eval: true, resourceLimits: { codeRangeSizeMb: 16 } }), 'exit');
async function attempt(t) {
BODY
}
"#;

/// How a Module tries.
pub const MODULE: &str = r#"
export default async ({ rawContent }) => {
  try {
    await attempt(JSON.parse(rawContent));
    return { text: 'done', continue: true };
  } catch (error) {
    return { text: String(error?.cause?.code ?? error?.code ?? error), continue: true };
  }
};
"#;

/// How a Once script tries.
pub const ONCE: &str = r#"
let text;
try {
  await attempt(JSON.parse(JSON.parse(fs.readFileSync(0, 'utf8')).rawContent));
  text = 'done';
} catch (error) {
  text = String(error?.cause?.code ?? error?.code ?? error);
}
console.log(JSON.stringify({ text, continue: true }));
"#;

/// Those of Modules.
pub const OF_MODULES: &[Attempt] = &[
    // The gateway.
    at("read the gateway's environment", "EACCES", "fs.readFileSync(`/proc/${process.ppid}/environ`)"),
    at("read the gateway's memory", "EACCES", "fs.openSync(`/proc/${process.ppid}/mem`)"),
    at("read the gateway's arguments", "EACCES", "fs.readFileSync(`/proc/${process.ppid}/cmdline`)"),
    at("list the gateway's descriptors", "EACCES", "fs.readdirSync(`/proc/${process.ppid}/fd`)"),
    at("find the gateway's folder", "EACCES", "fs.readlinkSync(`/proc/${process.ppid}/cwd`)"),
    at("ask whether the gateway lives", "EPERM", "process.kill(process.ppid, 0)"),
    // Other processes.
    at("end another process", "EPERM", "process.kill(t.victim, 'SIGTERM')"),
    at("stop another process", "EPERM", "process.kill(t.victim, 'SIGSTOP')"),
    at("signal every process", "EPERM", "process.kill(-1, 0)"),
    at("signal its group", "EPERM", "process.kill(0, 0)"),
    at("slow another process down", "EPERM", "try { os.setPriority(t.victim, 19) } catch (e) { throw e.info }"),
    at("list processes", "EACCES", "fs.readdirSync('/proc')"),
    // The worker of another plugin.
    at("read another worker's environment", "EACCES", "fs.readFileSync(`/proc/${t.worker}/environ`)"),
    at("read another worker's memory", "EACCES", "fs.openSync(`/proc/${t.worker}/mem`)"),
    at("list another worker's descriptors", "EACCES", "fs.readdirSync(`/proc/${t.worker}/fd`)"),
    at("take another worker's descriptor", "EACCES", "fs.readlinkSync(`/proc/${t.worker}/fd/3`)"),
    at("signal another worker", "EPERM", "process.kill(t.worker, 0)"),
    at("read another plugin's code", "EACCES", "fs.readFileSync(t.other)"),
    // Sockets.
    at("connect by TCP", "EPERM", "await until(net.connect(t.port, '127.0.0.1'), 'connect')"),
    at("listen by TCP", "EPERM", "await until(net.createServer().listen(0, '127.0.0.1'), 'listening')"),
    at(
        "send by UDP",
        "EPERM",
        "const s = require('dgram').createSocket('udp4');
        await new Promise((done, fail) => s.on('error', fail).send('x', t.port, '127.0.0.1', 
            (e) => (e ? fail(e) : done())))",
    ),
    at(
        "listen by UDP",
        "EPERM",
        "const s = require('dgram').createSocket('udp6');
        const bound = until(s, 'listening'); s.bind(0); await bound",
    ),
    at("connect to a socket's path", "EPERM", "await until(net.connect(t.path), 'connect')"),
    at("listen on a path", "EPERM", "await until(net.createServer().listen(`${t.dir}/s`), 'listening')"),
    at("listen on an abstract name", "EPERM", "await until(net.createServer().listen(`\\0${t.name}`), 'listening')"),
    at("look up a name", "EAI_AGAIN", "await require('dns').promises.lookup('localhost')"),
    at("fetch", "EPERM", "await fetch(`http://127.0.0.1:${t.port}/`)"),
    at("fetch by name", "EAI_AGAIN", "await fetch(`http://localhost:${t.port}/`)"),
    at("list network interfaces", "1", "try { os.networkInterfaces() } catch (e) { throw e.info.errno }"),
    at(
        "make a socket by a binding",
        "-1",
        "const { TCP } = process.binding('tcp_wrap');
        const failed = new TCP(1).bind('127.0.0.1', 0); if (failed) throw failed",
    ),
    // Reading outside.
    at("read a file outside", "EACCES", "fs.readFileSync(t.secret)"),
    at("read the list of users", "EACCES", "fs.readFileSync('/etc/passwd')"),
    at("read its own environment's file", "EACCES", "fs.readFileSync('/proc/self/environ')"),
    at("read its own map of memory", "EACCES", "fs.readFileSync('/proc/self/maps')"),
    at("read what the kernel shows", "EACCES", "fs.readFileSync('/sys/devices/system/cpu/online')"),
    at("list the root", "EACCES", "fs.readdirSync('/')"),
    at("list the folders of other plugins", "EACCES", "fs.readdirSync('..')"),
    at("list shared memory", "EACCES", "fs.readdirSync('/dev/shm')"),
    at("follow a link to a file outside", "EACCES", "fs.readFileSync('link.txt')"),
    at("follow a link to a folder outside", "EACCES", "fs.readdirSync('link')"),
    at("import a file outside", "EACCES", "await import(t.module)"),
    at("require a file outside", "EACCES", "require(t.json)"),
    at("watch a folder outside", "EPERM", "fs.watch(t.dir).close()"),
    at("ask how full a disk is", "EPERM", "fs.statfsSync('/')"),
    // Writing.
    at("write a file", "EPERM", "fs.writeFileSync(`${t.dir}/new`, 'x')"),
    at("write to its own folder", "EPERM", "fs.writeFileSync('new', 'x')"),
    at("change its own code", "EPERM", "fs.appendFileSync(new URL(import.meta.url), '//')"),
    at(
        "write shared memory",
        "EPERM",
        "const f = `/dev/shm/hawsepipe-${process.pid}`;
        fs.writeFileSync(f, 'x'); fs.unlinkSync(f)",
    ),
    at("make a folder", "EPERM", "fs.mkdirSync(`${t.dir}/new`)"),
    at("remove a file", "EPERM", "fs.unlinkSync(`${t.dir}/file`)"),
    at("remove a folder", "EPERM", "fs.rmdirSync(`${t.dir}/empty`)"),
    at("rename a file", "EPERM", "fs.renameSync(`${t.dir}/file`, `${t.dir}/new`)"),
    at("make a link", "EPERM", "fs.symlinkSync('/', `${t.dir}/new`)"),
    at("make a second name", "EPERM", "fs.linkSync(`${t.dir}/file`, `${t.dir}/new`)"),
    at("change a file's mode", "EPERM", "fs.chmodSync(`${t.dir}/file`, 0o777)"),
    at("change its own code's mode", "EPERM", "fs.fchmodSync(fs.openSync(new URL(import.meta.url)), 0o777)"),
    at("change a file's owner", "EPERM", "fs.chownSync(`${t.dir}/file`, process.getuid(), process.getgid())"),
    at("change a file's times", "EPERM", "fs.utimesSync(`${t.dir}/file`, 1, 1)"),
    at("cut a file short", "EPERM", "fs.truncateSync(`${t.dir}/file`)"),
    at("copy a file", "EACCES", "fs.copyFileSync(t.secret, `${t.dir}/new`)"),
    at("write a heap snapshot", "EPERM", "require('v8').writeHeapSnapshot(`${t.dir}/new`)"),
    at(
        "write a report",
        "nothing",
        "process.report.writeReport(`${t.dir}/new`);
        if (!fs.existsSync(`${t.dir}/new`)) throw 'nothing'",
    ),
    at("change whom the kernel ends first", "EPERM", "fs.writeFileSync('/proc/self/oom_score_adj', '1000')"),
    // Starting programs.
    at("run a program", "EPERM", "ended(cp.spawnSync('/bin/true'))"),
    at("run a shell", "EPERM", "ended(cp.spawnSync('exit 0', { shell: true }))"),
    at("run Node.js", "EPERM", "ended(cp.spawnSync(process.execPath, ['--version']))"),
    at("run a program beside it", "EPERM", "await until(cp.spawn('/bin/true'), 'exit')"),
    at("fork itself", "EPERM", "const child = cp.fork('none.mjs', { execArgv: [] }); await until(child, 'exit')"),
    at(
        "fork a cluster",
        "EPERM",
        "const c = require('cluster'); c.setupPrimary({ exec: 'none.mjs', execArgv: [] });
        await until(c.fork().process, 'exit')",
    ),
    at(
        "run a program by a binding",
        "-1",
        "const { error } = process.binding('spawn_sync')
        .spawn({ file: '/bin/true', args: ['true'], stdio: [{ type: 'ignore' }] }); if (error) throw error",
    ),
    // Node.js itself.
    at(
        "load native code",
        "ERR_DLOPEN_DISABLED",
        "try { process.dlopen({ exports: {} }, t.library) }
        catch (e) { if (!e.message.includes('self-register')) throw e }",
    ),
    at(
        "open the inspector",
        "closed",
        "const i = require('inspector'); i.open(0, '127.0.0.1');
        if (!i.url()) throw 'closed'; i.close()",
    ),
    at(
        "read a file in another thread",
        "EACCES",
        "await thread(`require('fs').readFileSync(${JSON.stringify(t.secret)})`)",
    ),
    at(
        "connect in another thread",
        "EPERM",
        "await thread(`require('net').connect(${t.port}, '127.0.0.1')
        .on('connect', () => process.exit())`)",
    ),
    at("be another user", "EPERM", "process.setuid(process.getuid())"),
    at("be of another group", "EPERM", "process.setegid(process.getegid())"),
    at("be steered by NODE_OPTIONS", "ignored", "if (globalThis.steered !== true) throw 'ignored'"),
    at("be steered by LD_PRELOAD", "ignored", "if (process.env.LD_PRELOAD === undefined) throw 'ignored'"),
    // Taking all there is.
    at("open 5000 files", "EMFILE", "for (let n = 0; n < 5000; n++) fs.openSync('/dev/null')"),
    at(
        "take twice its memory",
        "Crashed",
        "const kept = [];
        for (let n = 0; n < 128; n++) kept.push(Buffer.alloc(1 << 20, 1))",
    ),
];

/// Those of Once scripts: the same confinement, another way in.
pub const OF_SCRIPTS: &[Attempt] = &[
    at("read the gateway's environment", "EACCES", "fs.readFileSync(`/proc/${process.ppid}/environ`)"),
    at("end another process", "EPERM", "process.kill(t.victim, 'SIGTERM')"),
    at("connect by TCP", "EPERM", "await until(net.connect(t.port, '127.0.0.1'), 'connect')"),
    at("read a file outside", "EACCES", "fs.readFileSync(t.secret)"),
    at("write to its own folder", "EPERM", "fs.writeFileSync('new', 'x')"),
    at("run a program", "EPERM", "ended(cp.spawnSync('/bin/true'))"),
    at(
        "load native code",
        "ERR_DLOPEN_DISABLED",
        "try { process.dlopen({ exports: {} }, t.library) }
        catch (e) { if (!e.message.includes('self-register')) throw e }",
    ),
    at("be steered by NODE_OPTIONS", "ignored", "if (globalThis.steered !== true) throw 'ignored'"),
];
