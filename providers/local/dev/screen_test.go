package dev

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/serve"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func machine(id, status string) serve.Machine {
	return serve.Machine{ID: id, Group: "web", Status: status, Created: noon.Add(-time.Minute)}
}

func TestTable(t *testing.T) {
	running := machine("a", "running")
	running.LastSeen = noon.Add(-2 * time.Second)
	leaving := machine("b", "terminating")
	leaving.Reason = "unhealthy"
	got := table([]serve.Machine{running, leaving, machine("c", "running")}, noon, 2)
	want := `INSTANCE   GROUP   STATUS        AGE    LAST REPORT   NOTE
a          web     running       1m0s   2s ago        
b          web     terminating   1m0s   -             unhealthy
and 1 more
2 running, 1 terminating
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestTable_ofNothing(t *testing.T) {
	if got := table(nil, noon, 10); !strings.HasSuffix(got, "no machines\n") {
		t.Errorf("table = %q", got)
	}
}

func TestChanges(t *testing.T) {
	before := []serve.Machine{machine("a", "running"), machine("b", "running"), machine("c", "terminating")}
	sick := machine("b", "terminating")
	sick.Reason = "unhealthy"
	now := []serve.Machine{machine("a", "running"), sick, machine("d", "pending")}
	want := []string{"b web running -> terminating unhealthy", "d web pending", "c web gone"}
	if diff := cmp.Diff(want, changes(before, now)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if lines := changes(now, now); len(lines) > 0 {
		t.Errorf("nothing changed, and yet: %q", lines)
	}
}

// A table must be drawn over exactly, however small the terminal is.
func TestDraw_fitsTheTerminal(t *testing.T) {
	var machines []serve.Machine
	for range 50 {
		machines = append(machines, machine("dev068a3cp3thz5z2mv1gejwftabc", "running"))
	}
	for _, size := range [][2]int{{140, 40}, {30, 10}, {20, 3}} {
		var out bytes.Buffer
		s := &screen{out: &out, now: func() time.Time { return noon }, size: func() (int, int) { return size[0], size[1] }}
		s.draw(machines)
		if s.drawn >= max(size[1], frame+2) {
			t.Errorf("%v: %d lines", size, s.drawn)
		}
		for line := range strings.Lines(out.String()) {
			if len(strings.TrimSuffix(line, "\n")) > size[0] {
				t.Errorf("%v: line of %d columns: %q", size, len(line), line)
			}
		}
		lines := s.drawn
		out.Reset()
		s.draw(machines)
		if up := fmt.Sprintf("\x1b[%dA\x1b[J", lines); !strings.HasPrefix(out.String(), up) {
			t.Errorf("%v: the table is not drawn over: %q", size, out.String()[:20])
		}
	}
}

func TestAlarm_staysAboveTheTable(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, now: func() time.Time { return noon }, size: func() (int, int) { return 80, 24 }}
	log := slog.New(alarms{slog.NewTextHandler(io.Discard, nil), s.alarm}).With("server", "dev") //nolint:sloglint // a DiscardHandler is enabled for nothing
	s.draw(nil)
	out.Reset()
	log.Info("all is well")
	log.Error("record quarantined", "key", "k")
	if got, want := out.String(), "\x1b[2A\x1b[Jerror: record quarantined key=k\n"; got != want {
		t.Errorf("the terminal got %q, want %q", got, want)
	}
}
