package proxmoxfake

import (
	"fmt"
	"maps"
	"time"
)

// task is a worker process: what a UPID names.
type task struct {
	upid    string
	node    string
	kind    string
	id      string // what it is about, by the API's own choice
	user    string
	pid     int
	started time.Time
	ended   time.Time
	exit    string // empty while it runs
	log     []string
	undo    func() // what the worker does when it is interrupted; may be nil
}

// keptTasks bounds what is remembered of tasks that have ended.
const keptTasks = 10_000

// end ends the task, once.
func (t *task) end(now time.Time, exit string) {
	if t.exit != "" {
		return
	}
	t.exit, t.ended = exit, now
	if exit == "OK" {
		t.log = append(t.log, "TASK OK")
	} else {
		t.log = append(t.log, "TASK ERROR: "+exit)
	}
}

// fail ends the task with the words of err.
func (t *task) fail(now time.Time, err error) { t.end(now, err.Error()) }

// fork starts a task. Its worker begins a moment later, and may end the task then or
// in what it plans with later. It returns the UPID.
func (c *Cloud) fork(r *request, kind, id, name string, worker func(t *task, now time.Time)) string {
	c.pids++
	c.archive(r.now)
	t := &task{node: r.node, kind: kind, id: id, user: r.user, pid: c.pids, started: r.now}
	t.upid = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", t.node, t.pid, 0x1000+c.pids, t.started.Unix(), kind, id, t.user)
	c.tasks[t.upid] = t
	c.later(t, r.now, c.opts.takes("fork"), func(now time.Time) {
		if c.spoil != nil {
			if exit := c.spoil(kind, name); exit != "" {
				t.end(now, exit)
				return
			}
		}
		worker(t, now)
	})
	return t.upid
}

// archive forgets tasks that ended an hour ago, if there are too many.
func (c *Cloud) archive(now time.Time) {
	if len(c.tasks) < keptTasks {
		return
	}
	maps.DeleteFunc(c.tasks, func(_ string, t *task) bool { return t.exit != "" && now.Sub(t.ended) > time.Hour })
}

// later lets a running task go on after a while, unless it has ended until then.
func (c *Cloud) later(t *task, now time.Time, wait time.Duration, do func(now time.Time)) {
	c.clock.at(now.Add(wait), func(now time.Time) {
		if t.exit == "" {
			do(now)
		}
	})
}

// holding lets a task do something under the lock of a machine's configuration, which
// it holds for as long as its kind takes. do happens at the end of that time.
func (c *Cloud) holding(t *task, now time.Time, vmid int, takes time.Duration, do func(now time.Time)) {
	name := fmt.Sprint(vmid)
	from, ok := c.files.take(name, now, c.opts.scaled(machinePatience), takes)
	if !ok {
		c.later(t, from, 0, func(now time.Time) { t.fail(now, lockTimeout(vmid)) })
		return
	}
	c.later(t, from, takes, do)
}

func lockTimeout(vmid int) error {
	return die("can't lock file '/var/lock/qemu-server/lock-%d.conf' - got timeout", vmid)
}

// SetTaskFaults lets f spoil tasks: where it returns an exit status for a kind of
// task, qmclone for instance, about the machine or file of that name, the worker does
// nothing and ends with it. nil ends that.
func (c *Cloud) SetTaskFaults(f func(kind, name string) (exit string)) {
	c.with(func(time.Time) { c.spoil = f })
}

// done ends the task by what came of it.
func (t *task) done(now time.Time, err error) {
	if err != nil {
		t.fail(now, err)
		return
	}
	t.end(now, "OK")
}
