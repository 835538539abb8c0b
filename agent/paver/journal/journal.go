// Package journal is the one durable record of nstance-paver: which slot of the host is the
// active one, and how far a transition to the other one has come.
//
// The record is a value; what to do next follows from it in package transition. This package
// knows its form and its bounds, and how it is written and read back so that a crash at any
// instruction leaves the old record or the new one.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"nstance.dev/agent/paver/assignment"
)

// Version is that of the record's form.
const Version = 1

// Slot is one of the two places for a node machine on a host.
type Slot string

// Slots. None is that of a host which has no node machine.
const (
	None Slot = ""
	A    Slot = "a"
	B    Slot = "b"
)

// Slots are both slots, in order.
func Slots() []Slot { return []Slot{A, B} }

// Other is the slot beside s; A for [None].
func (s Slot) Other() Slot {
	if s == A {
		return B
	}
	return A
}

// Machine is the name of the slot's systemd-nspawn machine, and of its root directory.
func (s Slot) Machine() string { return "node-" + string(s) }

func (s Slot) valid() bool { return s == None || s == A || s == B }

// Phase is what runs in a slot.
type Phase string

// Phases.
const (
	Absent  Phase = ""        // nothing
	Running Phase = "running" // a machine with its systemd-nspawn
	Orphan  Phase = "orphan"  // processes of a machine without systemd-nspawn, or the other way round
	Failed  Phase = "failed"  // nothing; the machine ended by itself
)

// Stage is how far a transition has come.
type Stage string

// Stages, in their order.
const (
	Fetch  Stage = "fetch"
	Build  Stage = "build"
	Guard  Stage = "guard"
	Retire Stage = "retire"
	Boot   Stage = "boot"
	Join   Stage = "join"
	Commit Stage = "commit"
	Sweep  Stage = "sweep"
)

// Kind says what a transition is for.
type Kind string

// Kinds of transitions.
const (
	KindBuild  Kind = "build"  // to a machine that is built, or reused
	KindRevert Kind = "revert" // back to the machine from before, which is complete
)

// Transition is a change from one slot to the other. From is [None] on the first pave.
type Transition struct {
	Kind       Kind                  `json:"kind"`
	Epoch      int64                 `json:"epoch"`
	From       Slot                  `json:"from"`
	To         Slot                  `json:"to"`
	Stage      Stage                 `json:"stage"`
	Since      time.Time             `json:"since"`            // when the stage began
	Started    time.Time             `json:"started,omitzero"` // when the work for the assignment began
	Attempts   int                   `json:"attempts"`         // failures so far, of preparing or of switching
	RetryAt    time.Time             `json:"retryAt,omitzero"` // nothing is tried before
	LastError  string                `json:"lastError,omitempty"`
	Assignment assignment.Assignment `json:"assignment"`
	Marks      Marks                 `json:"marks,omitzero"`
}

// Marks are what is known of a transition beside its stage.
type Marks struct {
	// Reuse: the slot holds the wanted content already and is refreshed, not built.
	Reuse bool `json:"reuse,omitempty"`
	// Dirty: a machine of an earlier attempt may run in the slot, and is stopped before the next.
	Dirty bool `json:"dirty,omitempty"`
	// GaveUp: nothing is tried again; what runs is left to run.
	GaveUp bool `json:"gaveUp,omitempty"`
	// FailedIn is the stage in which the last attempt failed.
	FailedIn Stage `json:"failedIn,omitempty"`
	// Held: nothing is done until another assignment comes.
	Held bool `json:"held,omitempty"`
	// BootID is that of the machine in the slot, NodeUID that of the Node that joined from it.
	BootID  string `json:"bootID,omitempty"`
	NodeUID string `json:"nodeUID,omitempty"`
	// Recorded: what the host was like before the first change stands in the journal.
	Recorded bool `json:"recorded,omitempty"`
	// CredentialUntil is until when the credential that was written into the slot can be used.
	CredentialUntil time.Time `json:"credentialUntil,omitzero"`
}

// Result is how an assignment ended that did not succeed.
type Result string

// Results.
const (
	Kept      Result = "Kept"      // nothing was switched, the old machine runs on
	Reverting Result = "Reverting" // the old machine is being started
	Reverted  Result = "Reverted"  // the old machine runs again
	Held      Result = "Held"      // left for inspection
	Refused   Result = "Refused"   // the host cannot do it, such as adopting other content
)

// Outcome is what became of the last assignment that did not succeed.
type Outcome struct {
	Epoch         int64                    `json:"epoch"`
	Configuration assignment.Configuration `json:"configuration,omitzero"`
	Stage         Stage                    `json:"stage,omitempty"` // in which the last attempt failed
	Result        Result                   `json:"result"`
	At            time.Time                `json:"at,omitzero"`
	Error         string                   `json:"error,omitempty"`
}

// Content is what a slot holds.
type Content struct {
	Configuration assignment.Configuration `json:"configuration"`
	Epoch         int64                    `json:"epoch"`
	BootID        string                   `json:"bootID,omitempty"`  // of its last boot that is known
	NodeUID       string                   `json:"nodeUID,omitempty"` // of the Node that joined from it
	Broken        bool                     `json:"broken,omitempty"`  // it did not join
	Leader        Leader                   `json:"leader,omitzero"`
}

// Scope is how much is prepared of a machine.
type Scope string

// Scopes.
const (
	Images    Scope = "images" // what it is built from is fetched
	WholeSlot Scope = "slot"   // and the idle slot is built
)

// PrebuildStage is how far a prebuild is.
type PrebuildStage string

// Stages of a prebuild.
const (
	PrebuildFetch  PrebuildStage = "fetch"
	PrebuildBuild  PrebuildStage = "build"
	PrebuildDone   PrebuildStage = "done"
	PrebuildFailed PrebuildStage = "failed"
)

// Over reports whether nothing more is done.
func (s PrebuildStage) Over() bool { return s == PrebuildDone || s == PrebuildFailed }

// Prebuild is a machine that is prepared while another one runs (M64).
type Prebuild struct {
	Scope Scope         `json:"scope"`
	Stage PrebuildStage `json:"stage"`
	// Slot is the one that is being built, or that holds what was; None: neither.
	Slot       Slot                  `json:"slot,omitempty"`
	Since      time.Time             `json:"since"`            // when the stage began
	Attempts   int                   `json:"attempts"`         // failures so far
	RetryAt    time.Time             `json:"retryAt,omitzero"` // nothing is tried before
	LastError  string                `json:"lastError,omitempty"`
	Assignment assignment.Assignment `json:"assignment"`
}

// Hash is that of the content that is prepared; empty: none is.
func (p *Prebuild) Hash() string {
	if p == nil {
		return ""
	}
	return p.Assignment.Configuration.Hash
}

// Leader is the first process of a node machine as the host sees it. The start time, in clock
// ticks since the host's boot, and the host's boot tell it from a later process of that number.
type Leader struct {
	PID          int    `json:"pid,omitempty"`
	StartTime    uint64 `json:"startTime,omitempty"`
	PIDNamespace uint64 `json:"pidNamespace,omitempty"` // the namespace's inode
	HostBootID   string `json:"hostBootID,omitempty"`
}

// Journal is the record. The zero Journal is that of a host on which nothing was ever built.
type Journal struct {
	V          int               `json:"v"`
	MachineUID string            `json:"machineUID,omitempty"`
	Active     Slot              `json:"active"`
	Previous   Slot              `json:"previous,omitempty"` // the idle slot, if it can be gone back to
	Epoch      int64             `json:"epoch"`              // of the last assignment that was begun
	Hash       string            `json:"hash,omitempty"`     // of its template
	Transition *Transition       `json:"transition,omitempty"`
	Outcome    *Outcome          `json:"outcome,omitempty"`
	Prebuild   *Prebuild         `json:"prebuild,omitempty"`
	Contents   map[Slot]Content  `json:"contents,omitempty"`
	Settings   map[string]string `json:"sysctlBackup,omitempty"` // the host's sysctls before the first change
	Network    json.RawMessage   `json:"netBaseline,omitempty"`  // what the host's network had before the first boot
}

// MaxError is how long a recorded error may be, in bytes.
const MaxError = 512

// Cut returns at most [MaxError] bytes of an error's text, whole characters only.
func Cut(text string) string {
	if len(text) <= MaxError {
		return text
	}
	cut := MaxError
	for cut > 0 && text[cut]&0xc0 == 0x80 {
		cut--
	}
	return text[:cut]
}

// Clone returns a journal that shares nothing with j that its users change.
func (j Journal) Clone() Journal {
	if j.Transition != nil {
		t := *j.Transition
		j.Transition = &t
	}
	if j.Outcome != nil {
		o := *j.Outcome
		j.Outcome = &o
	}
	if j.Prebuild != nil {
		p := *j.Prebuild
		j.Prebuild = &p
	}
	if j.Contents != nil {
		contents := make(map[Slot]Content, len(j.Contents))
		for slot, c := range j.Contents {
			contents[slot] = c
		}
		j.Contents = contents
	}
	return j
}

// Validate reports everything in which a journal contradicts itself.
func (j Journal) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if j.V != Version {
		bad("v: %d is not %d; it was written by another release", j.V, Version)
	}
	if !j.Active.valid() || !j.Previous.valid() {
		bad("active %.20q, previous %.20q: a slot is a or b", j.Active, j.Previous)
	}
	if j.Previous != None && j.Previous == j.Active {
		bad("previous: %s is the active slot", j.Previous)
	}
	if j.Epoch < 0 {
		bad("epoch: %d is negative", j.Epoch)
	}
	for slot := range j.Contents {
		if slot == None || !slot.valid() {
			bad("contents: %.20q is not a slot", slot)
		}
	}
	if t := j.Transition; t != nil {
		errs = append(errs, t.validate(j)...)
	}
	if p := j.Prebuild; p != nil {
		errs = append(errs, p.validate(j)...)
	}
	return errors.Join(errs...)
}

func (p *Prebuild) validate(j Journal) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("prebuild."+format, args...)) }
	if p.Scope != Images && p.Scope != WholeSlot {
		bad("scope: %.20q must be one of images and slot", p.Scope)
	}
	switch p.Stage {
	case PrebuildFetch, PrebuildBuild, PrebuildDone, PrebuildFailed:
	default:
		bad("stage: %.20q is unknown", p.Stage)
	}
	if !p.Slot.valid() || p.Slot != None && p.Slot == j.Active || p.Stage == PrebuildBuild && p.Slot == None {
		bad("slot: %.20q must be one that is not the active one", p.Slot)
	}
	if p.Assignment.Mode != assignment.Prebuild {
		bad("assignment.mode: %.20q must be Prebuild", p.Assignment.Mode)
	}
	if err := p.Assignment.Validate(); err != nil {
		bad("assignment: %w", err)
	}
	return errs
}

func (t *Transition) validate(j Journal) (errs []error) {
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("transition."+format, args...))
	}
	switch t.Kind {
	case KindBuild, KindRevert:
	default:
		bad("kind: %.20q must be one of build and revert", t.Kind)
	}
	switch t.Stage {
	case Fetch, Build, Guard, Retire, Boot, Join, Commit, Sweep:
	default:
		bad("stage: %.20q is unknown", t.Stage)
	}
	if t.To == None || !t.To.valid() || !t.From.valid() || t.From == t.To {
		bad("from %.20q to %.20q: they must be two slots", t.From, t.To)
	}
	if t.Epoch != j.Epoch {
		bad("epoch: %d is not that of the journal, %d", t.Epoch, j.Epoch)
	}
	if err := t.Assignment.Validate(); err != nil {
		bad("assignment: %w", err)
	}
	return errs
}
