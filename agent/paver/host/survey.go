package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/manifest"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/report"
	"nstance.dev/agent/paver/settings"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// surveyEvery is the time between two surveys. A changed file is reported within twice of it.
const surveyEvery = manifest.Interval * 9 / 20

// survey is what was found out last about the host beside its machines. It takes seconds, so it is
// done apart from the loop.
type survey struct {
	mu     sync.Mutex
	about  journal.Journal // as the loop knows it
	last   report.Surroundings
	seen   map[render.Place]manifest.Manifest // with the metadata of unchanged files
	seenOf string                             // content that seen is about
	// written grows when something else is written to the host for the content that runs.
	written atomic.Int64
	ask     chan struct{} // has room for one: the journal is about something else
}

// Surroundings returns what the last survey found. It does not wait.
func (h *Host) Surroundings(_ context.Context, j journal.Journal) report.Surroundings {
	s := &h.survey
	s.mu.Lock()
	defer s.mu.Unlock()
	if subject(s.about) != subject(j) {
		select {
		case s.ask <- struct{}{}:
		default:
		}
	}
	s.about = j
	return s.last
}

// subject is what a survey has to look at again when it changes.
func subject(j journal.Journal) string {
	return fmt.Sprint(j.Active, j.Contents[j.Active].Epoch, j.Epoch, j.Transition == nil)
}

// Survey looks at the host until ctx ends: at once, when the machine is another one, and now and
// then.
func (h *Host) Survey(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.survey.ask:
		case <-timer.C:
		}
		h.look(ctx)
		timer.Reset(surveyEvery)
	}
}

func (h *Host) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	h.survey.mu.Lock()
	j := h.survey.about
	h.survey.mu.Unlock()
	found := report.Surroundings{Host: describe(ctx), Sizes: map[journal.Slot]int64{}}
	problem := func(reason string, err error) {
		if err != nil {
			found.Problems = append(found.Problems, &nstancev1.MachineProblem{Reason: reason, Message: journal.Cut(err.Error())})
		}
	}
	p, err := h.opts.Policy()
	problem("PolicyUnreadable", err)
	found.Preflight, found.Host.SystemdVersion, err = h.preflight(ctx, j, p.Allow.Degraded)
	problem("PreflightIncomplete", err)
	found.Host.Facts, err = h.planner.facts(h.latest(j), p)
	problem("HostUnreadable", err)
	found.Problems = append(found.Problems, h.leftOut(j, p)...)
	for _, slot := range journal.Slots() {
		found.Sizes[slot] = h.slots.Size(ctx, slot)
	}
	if p.Drift && j.Active != journal.None && j.Transition == nil {
		found.Drift, err = h.drift(ctx, j)
		problem("DriftUnknown", err)
	}
	h.survey.mu.Lock()
	defer h.survey.mu.Unlock()
	h.survey.last = found
}

// preflight says whether a machine can be built here.
func (h *Host) preflight(ctx context.Context, j journal.Journal, degraded bool) (checks []*nstancev1.PreflightCheck, systemd int32, err error) {
	m := h.latest(j)
	t, wants := preflight.For(m)
	wants.Mode, wants.AllowDegraded = h.opts.Mode, degraded
	wants.Trees = h.trees(j, m)
	facts, err := h.opts.Probe(ctx, t)
	if err != nil && ctx.Err() != nil {
		return nil, 0, err
	}
	return preflight.Judge(facts, wants), int32(facts.SystemdVersion), err
}

// trees is how many bytes the trees take that are still to be written for what is being built: the image
// unpacked in the cache, and its copy in the slot, unless they share their content. 0: nothing is built, or the
// image is not known yet.
func (h *Host) trees(j journal.Journal, m *nstancev1.MachineAssignment) uint64 {
	t := j.Transition
	if t == nil || t.Kind != journal.KindBuild || t.Marks.Reuse || t.Marks.GaveUp || t.Stage != journal.Fetch && t.Stage != journal.Build {
		return 0
	}
	size, err := h.opts.Images.Size(m)
	if err != nil || size.Bytes <= 0 { // an image that cannot be read fails where it is fetched
		return 0
	}
	trees := uint64(0)
	if !size.Unpacked {
		trees++
	}
	if !h.opts.Disk.Shares(h.opts.Dir, h.opts.Machines) {
		trees++
	}
	return trees * uint64(size.Bytes)
}

// leftOut are the parts of the assignment that the policy does not allow, and that are not built for
// that reason (M100). What it refuses as a whole its failure says.
func (h *Host) leftOut(j journal.Journal, p policy.Policy) (problems []*nstancev1.MachineProblem) {
	m := h.latest(j)
	if len(m.GetTemplate().GetHost().GetSshKeys()) == 0 {
		return nil
	}
	for _, refusal := range h.planner.refusals(p, m, render.Host{}) {
		if !refusal.Blocks {
			problems = append(problems, &nstancev1.MachineProblem{Reason: policy.Reason, Message: journal.Cut(refusal.Field + ": " + refusal.Message)})
		}
	}
	return problems
}

// latest is the assignment that the journal is about.
func (h *Host) latest(j journal.Journal) *nstancev1.MachineAssignment {
	if t := j.Transition; t != nil {
		if m, err := t.Assignment.Message(); err == nil {
			return m
		}
	}
	if j.Active == journal.None {
		return nil
	}
	if a, ok, err := h.Built(j.Active); ok && err == nil {
		if m, err := h.planner.message(a, j.Active); err == nil {
			return m
		}
	}
	return nil
}

// own says whether a process belongs to a node machine: it is in the machine's cgroup.
func (h *Host) own(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false
	}
	for _, slot := range journal.Slots() {
		name := h.opts.Name(slot)
		if strings.Contains(string(text), "/nstance-"+name+"/") || strings.Contains(string(text), "systemd-nspawn@"+name+".service") {
			return true
		}
	}
	return false
}

// manifestFile remembers what was written to a place: of the slot, or of the host.
func (h *Host) manifestFile(name string) string {
	return filepath.Join(h.opts.Dir, "manifest-"+name+".json")
}

// onHost is the name of the host's manifest, beside those of slots.
const onHost = "host"

// remember writes down what was written to one place. Without it no drift is found there.
func (h *Host) remember(name string, files []render.File, programs ...artifact.File) error {
	m := manifest.Of(files)
	for _, p := range programs {
		m = m.With(render.Slot, p.Path, p.Mode, p.SHA256)
	}
	text, err := m.Encode()
	if err != nil {
		return err
	}
	return durable.WriteFile(h.manifestFile(name), text, 0o600)
}

// installed are the programs that were put into a slot when it was built. Those that cannot
// be told are not looked after.
func (h *Host) installed(s journal.Slot) (programs []artifact.File) {
	text, err := os.ReadFile(h.manifestFile(string(s)))
	if err != nil {
		return nil
	}
	m, err := manifest.Decode(text)
	if err != nil {
		return nil
	}
	for _, e := range m.Entries() {
		if artifact.IsInstalled(e.Path) {
			programs = append(programs, artifact.File{Path: e.Path, Mode: e.Mode, SHA256: e.SHA256})
		}
	}
	return programs
}

// drift compares what was written for the active machine with what is there (M98).
func (h *Host) drift(ctx context.Context, j journal.Journal) ([]*nstancev1.MachineDrift, error) {
	s := &h.survey
	if of := subject(j) + fmt.Sprint(" ", s.written.Load()); s.seenOf != of {
		s.seen, s.seenOf = map[render.Place]manifest.Manifest{}, of
	}
	var all []*nstancev1.MachineDrift
	var errs []error
	for _, place := range []struct {
		place      render.Place
		name, root string
	}{{render.Slot, string(j.Active), h.slots.Path(j.Active)}, {render.OnHost, onHost, rootOf(h.opts.Settings)}} {
		m, known := s.seen[place.place]
		if !known {
			text, err := os.ReadFile(h.manifestFile(place.name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				m, err = manifest.Decode(text)
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		result, err := m.Compare(ctx, manifest.Roots{place.place: place.root})
		errs = append(errs, err)
		s.seen[place.place] = result.Manifest
		all = append(all, result.Drift...)
	}
	return all[:min(len(all), manifest.MaxDrift)], errors.Join(errs...)
}

func rootOf(s settings.Host) string {
	if s.Root == "" {
		return "/"
	}
	return s.Root
}
