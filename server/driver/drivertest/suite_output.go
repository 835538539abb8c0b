package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"nstance.dev/server/driver"
)

// output reads what machines have written, twice, and looks whether it is theirs and not too much.
func (s *suite) output() {
	o, ok := s.Driver.(driver.Outputter)
	if !ok {
		s.missing = "output of machines"
		return
	}
	sources := o.OutputSources()
	if known := []driver.OutputSource{driver.Console, driver.Log}; len(sources) == 0 || len(slices.Compact(slices.Sorted(slices.Values(sources)))) != len(sources) ||
		slices.ContainsFunc(sources, func(source driver.OutputSource) bool { return !slices.Contains(known, source) }) {
		s.t.Fatalf("the sources are %q; want at least one of %q, each once", sources, known)
	}
	m, other := s.create(testOwner), s.create(testOwner)
	ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
	for _, source := range sources {
		for range 2 {
			s.outputOf(o, ref, source)
			s.outputOf(o, driver.Ref{InstanceID: m.InstanceID}, source)
		}
		s.refusesCancelled("output", func(ctx context.Context) error { _, err := o.Output(ctx, ref, source); return err })
	}
	if s.Write == nil {
		return
	}
	s.Write(s.t, s.Driver, m.InstanceID, "the first line\n")
	s.eventually("the first line is told", func(context.Context) string {
		if out := s.outputOf(o, ref, sources[0]); !bytes.Contains(out.Data, []byte("the first line\n")) || out.Cut {
			return fmt.Sprintf("%q, cut is %t", out.Data, out.Cut)
		}
		return ""
	})
	s.Write(s.t, s.Driver, m.InstanceID, strings.Repeat("a line of many\n", driver.MaxOutput/15)+"the last line\n")
	s.eventually("the last line is told", func(context.Context) string {
		if out := s.outputOf(o, ref, sources[0]); !bytes.HasSuffix(out.Data, []byte("the last line\n")) || !out.Cut {
			return fmt.Sprintf("%d bytes, cut is %t", len(out.Data), out.Cut)
		}
		return ""
	})
	if out := s.outputOf(o, driver.Ref{InstanceID: other.InstanceID}, sources[0]); bytes.Contains(out.Data, []byte("a line of many")) {
		s.t.Errorf("another machine is told to have written %q", out.Data)
	}
}

func (s *suite) outputOf(o driver.Outputter, ref driver.Ref, source driver.OutputSource) driver.Output {
	s.t.Helper()
	out, err := o.Output(s.t.Context(), ref, source)
	if err != nil {
		s.t.Fatalf("output of %s, %s: %v", ref.InstanceID, source, err)
	}
	if len(out.Data) > driver.MaxOutput {
		s.t.Errorf("output of %s, %s: %d bytes, want %d at most", ref.InstanceID, source, len(out.Data), driver.MaxOutput)
	}
	return out
}

// outputOfStrangers checks what is said of machines and sources that do not exist.
func (s *suite) outputOfStrangers() {
	o, ok := s.Driver.(driver.Outputter)
	if !ok {
		s.missing = "output of machines"
		return
	}
	sources := o.OutputSources()
	_, err := o.Output(s.t.Context(), driver.Ref{InstanceID: s.request(testOwner).InstanceID}, sources[0])
	s.wantKind("output of an unknown machine", err, driver.NotFound)
	m := s.create(testOwner)
	for _, source := range []driver.OutputSource{driver.Console, driver.Log, "diary"} {
		if !slices.Contains(sources, source) {
			_, err := o.Output(s.t.Context(), driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}, source)
			s.wantKind("output of the source "+string(source), err, driver.Unsupported)
		}
	}
}
