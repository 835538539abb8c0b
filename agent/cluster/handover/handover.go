// Package handover is the agent's side of a machine's binding to a cluster: it hands what the
// server asks for to the program that runs with the machine's rights (package unit), and says
// what became of it.
//
// A request is a file in a directory of the agent, mode 0600, there in one step and durable; the
// program takes it away. What became of it stands in the program's status file. Everything is
// read from these files each time, so a restart of the agent, of the program or of the machine
// loses nothing, and a message that comes twice is answered twice and done once.
//
// A machine without the status file cannot join clusters: nobody would take the requests. The
// agent runs nothing itself.
package handover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nstance.dev/agent/cluster"
	"nstance.dev/agent/durable"
	"nstance.dev/protos/binding"
)

// Handover hands requests over. It is used by one goroutine at a time.
type Handover struct {
	dir, statusPath string

	asked string         // the binding that the server asked for last; "": none by this process
	own   binding.Report // the answer to that, where it is not in the files
}

// New returns a handover by way of a directory and a status file, which it does not touch yet:
// the directory is made for the first request.
func New(dir, statusPath string) *Handover { return &Handover{dir: dir, statusPath: statusPath} }

// Able reports whether the machine can join clusters.
func (h *Handover) Able() bool {
	_, err := h.status()
	return err == nil
}

// Join hands a join over, and returns what is to be reported.
func (h *Handover) Join(j binding.Join) binding.Report {
	if err := j.Check(); err != nil {
		return h.refuse(j.Binding, binding.Joining, err)
	}
	r := cluster.Request{Binding: j.Binding, Action: binding.Joining, Node: j.Node, Blob: j.Blob}
	return h.ask(r)
}

// Leave hands a leave over, and returns what is to be reported. A machine has left what it
// never joined.
func (h *Handover) Leave(id string) binding.Report {
	r := cluster.Request{Binding: id, Action: binding.Leaving}
	if !binding.ValidID(id) {
		return h.refuse(id, binding.Leaving, errors.New("the binding has no valid name"))
	}
	return h.ask(r)
}

func (h *Handover) ask(r cluster.Request) binding.Report {
	h.asked, h.own = r.Binding, binding.Report{}
	// In this order: the program writes the status before it takes a request away.
	waiting, err := h.waiting()
	if err != nil {
		return h.refuse(r.Binding, r.Action, err)
	}
	status, err := h.status()
	if err != nil {
		return h.refuse(r.Binding, r.Action, fmt.Errorf("nstance-cluster.service is not set up: %w", err))
	}
	step, why := status.Next(r)
	begun := step == cluster.Known && (r.Action == binding.Joining || status.Current.Binding == r.Binding)
	own, other := ofBinding(waiting, r.Binding)
	switch {
	case begun, slices.Contains(own, r.FileName()), r.Action == binding.Joining && len(own) > 0:
		return h.answer(r)
	case step == cluster.Refuse:
		return h.refuse(r.Binding, r.Action, errors.New(why))
	case r.Action == binding.Joining && other != "":
		return h.refuse(r.Binding, r.Action, fmt.Errorf("the machine has not left binding %s", other))
	case r.Action == binding.Leaving && step != cluster.Run && len(own) == 0:
		h.own = binding.Report{Binding: r.Binding, Action: binding.Leaving, State: binding.Done}
		return h.own
	}
	if err := h.write(r); err != nil {
		return h.refuse(r.Binding, r.Action, err)
	}
	return h.answer(r)
}

// answer is what the files say of a request that is in them.
func (h *Handover) answer(r cluster.Request) binding.Report {
	if report, ok := h.Report(); ok {
		return report
	}
	return binding.Report{Binding: r.Binding, Action: r.Action, State: binding.Accepted}
}

// ofBinding returns the requests for one binding, and the name of another one for which there is
// one; "": there is none.
func ofBinding(waiting []string, id string) (own []string, other string) {
	for _, name := range waiting {
		if binding, _ := split(name); binding == id {
			own = append(own, name)
		} else {
			other = binding
		}
	}
	return own, other
}

// refuse answers what is not handed over.
func (h *Handover) refuse(id string, action binding.Action, err error) binding.Report {
	text := err.Error()
	h.asked = id
	h.own = cluster.Failure(id, action, text[:min(len(text), binding.MaxError)]).Report()
	return h.own
}

// Report returns what became of the binding that the server asked for last, or of the one that
// the machine has: the zero report if it never had one. It returns false where that cannot be
// said, as the files cannot be read.
func (h *Handover) Report() (r binding.Report, ok bool) {
	waiting, err := h.waiting()
	if err != nil {
		return binding.Report{}, false
	}
	status, err := h.status()
	if err != nil {
		return h.own, h.own.Binding != ""
	}
	latest := ""
	for _, name := range waiting {
		if id, _ := split(name); h.asked == "" || id == h.asked {
			latest = name // a leave sorts last
		}
	}
	if id, action := split(latest); latest != "" {
		if r, known := status.Report(id); known && r.Action == action {
			return r, true // begun, and about to be taken away
		}
		return binding.Report{Binding: id, Action: action, State: binding.Accepted}, true
	}
	if h.own.Binding != "" {
		return h.own, true
	}
	if r, known := status.Report(h.asked); known {
		return r, true
	}
	return status.Current.Report(), true
}

// waiting are the names of the files with requests that the program has not taken away.
func (h *Handover) waiting() (names []string, err error) {
	entries, err := os.ReadDir(h.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	for _, e := range entries {
		if cluster.IsRequest(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// split takes the name of a request's file apart.
func split(name string) (id string, action binding.Action) {
	id, rest, _ := strings.Cut(name, ".")
	rest, _, _ = strings.Cut(rest, ".")
	return id, binding.Action(rest)
}

func (h *Handover) status() (cluster.Status, error) {
	f, err := os.Open(h.statusPath)
	if err != nil {
		return cluster.Status{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return cluster.Status{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > cluster.MaxStatus {
		return cluster.Status{}, fmt.Errorf("%s: %w", h.statusPath, cluster.ErrInvalid)
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil && info.Size() > 0 {
		return cluster.Status{}, err
	}
	return cluster.DecodeStatus(data)
}

// write hands a request over. What an interrupted write has left holds a secret, and goes.
func (h *Handover) write(r cluster.Request) error {
	if err := durable.MakeDir(h.dir, 0o700); err != nil {
		return fmt.Errorf("hand request over: %w", err)
	}
	if err := h.sweep(); err != nil {
		return fmt.Errorf("hand request over: %w", err)
	}
	if r.Action == binding.Leaving { // what has not begun need not begin
		join := cluster.Request{Binding: r.Binding, Action: binding.Joining}
		if err := durable.Remove(filepath.Join(h.dir, join.FileName())); err != nil {
			return fmt.Errorf("take request back: %w", err)
		}
	}
	data, err := r.Encode()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(h.dir, r.FileName()), data, 0o600); err != nil {
		return fmt.Errorf("hand request over: %w", err)
	}
	return nil
}

// sweep removes files that were never finished.
func (h *Handover) sweep() error {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), ".") {
			errs = append(errs, os.Remove(filepath.Join(h.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
