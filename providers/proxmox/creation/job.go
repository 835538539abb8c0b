package creation

import (
	"sync"
	"sync/atomic"
	"time"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/metadata"
	"nstance.dev/providers/proxmox/placement"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/providers/proxmox/template"
	"nstance.dev/server/driver"
)

// stage is how far a create has come. A stage is entered when the one before is
// done, and what it does is done again if it is not known whether it was.
type stage int

// The stages, in order.
const (
	stagePlace     stage = iota // choose a node and a number
	stageClone                  // copy the template: from here on there may be something
	stageConfigure              // size, network, tags
	stageResize                 // let the disk grow
	stageUpload                 // make the CD
	stageAttach                 // put it in, and say what to boot from
	stageStart                  // switch on
	stageDone
)

var stageNames = [...]string{"place", "clone", "configure", "resize", "upload", "attach", "start", "done"}

// String is the stage's name in errors.
func (s stage) String() string { return stageNames[s] }

// job is one create on its way. Its fields belong to whoever has the turn of its
// instance; those of progress the registry guards.
type job struct {
	progress

	request driver.CreateRequest
	want    rules.Settings

	stage      stage
	from       source
	upid       pve.UPID          // of the task that the stage waits for; empty: not begun
	unanswered bool              // the clone was sent, and its answer lost
	machine    template.Hardware // of the clone

	failed error    // why it is given up; what it made is being removed
	avoid  []string // nodes that it has failed on
	before error    // why on the last of them

	// leave gives the storage back; nil: not held. A create that is forgotten gives it
	// back too, whoever has its turn.
	leave    atomic.Pointer[func()]
	quit     chan struct{}
	quitOnce sync.Once
}

// source is what a machine is cloned from, and how.
type source struct {
	template template.Template
	shared   bool // the storage for the disks is one for all nodes
	full     bool // the disks are copied
}

// group is the tag of the machine's group.
func (j *job) group() string { return metadata.GroupTag(j.request.Tenant, j.request.Group) }

// progress is what others may know of a create.
type progress struct {
	at      api.VM // where the machine is, or will be; zero: not chosen
	need    placement.Need
	sent    bool // a clone was asked for, and there may be a machine
	busy    bool // a call works on it
	touched time.Time
	done    time.Time // zero: not yet
}

// over reports whether a create can be forgotten.
func (p *progress) over(now time.Time) bool {
	return !p.busy && (!p.done.IsZero() && now.Sub(p.done) > settling || now.Sub(p.touched) > abandonedAfter)
}

// again lets the create begin from the start, but not on that node.
func (j *job) again(not string, why error) {
	j.release()
	j.stage, j.upid, j.unanswered, j.machine, j.failed = stagePlace, "", false, template.Hardware{}, nil
	j.avoid, j.before = append(j.avoid, not), why
}

// stop tells whoever works on the create to stop.
func (j *job) stop() { j.quitOnce.Do(func() { close(j.quit) }) }

func (j *job) stopped() bool {
	select {
	case <-j.quit:
		return true
	default:
		return false
	}
}

// release gives the storage back to the next clone, once.
func (j *job) release() {
	if leave := j.leave.Swap(nil); leave != nil {
		(*leave)()
	}
}
