package fleet_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

// TestScenarios runs the stories in testdata: commands at the left margin, the
// answers indented below them. testdata/README says which commands there are.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScenario(t, string(old))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(old, []byte(got)) {
				t.Errorf("%s: answers differ (-update accepts them)\n%s", file, got)
			}
		})
	}
}

func runScenario(t *testing.T, script string) string {
	w := &world{t: t, now: epoch, view: fleet.View{Group: fleet.Group{ID: web}, Deletes: -1}}
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		out.WriteString(line + "\n")
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		answer, err := w.command(fields[0], fields[1:])
		if err != nil {
			t.Fatalf("line %d: %s: %v", i+1, line, err)
		}
		for _, a := range answer {
			out.WriteString("    " + a + "\n")
		}
	}
	return out.String()
}

// command carries one line out and returns what there is to say.
func (w *world) command(name string, args []string) ([]string, error) {
	switch name {
	case "group":
		return nil, w.setGroup(args)
	case "instance":
		return nil, w.addInstance(args)
	case "event":
		return nil, w.event(args)
	case "notice":
		return nil, w.notice(args)
	case "proved":
		w.find(identity.ID(args[0])).Reported = true
	case "ack":
		w.find(identity.ID(args[0])).Removal.Acked = true
	case "advance":
		d, err := time.ParseDuration(args[0])
		w.now = w.now.Add(d)
		return nil, err
	case "progress":
		w.progress()
	case "plan":
		return w.describe(w.plan()), nil
	case "apply":
		d := w.plan()
		for _, a := range d.Actions {
			w.carryOut(w.t, a)
		}
		return w.describe(d), nil
	case "show":
		return w.show(), nil
	default:
		return nil, fmt.Errorf("unknown command")
	}
	return nil, nil
}

func (w *world) setGroup(args []string) (err error) {
	v, g := &w.view, &w.view.Group
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "size":
			g.Size, err = strconv.Atoi(value)
		case "drain":
			g.DrainTimeout, err = time.ParseDuration(value)
		case "coordinated":
			v.DrainCoordinated = true
		case "deleted":
			g.Deleted = true
		case "deletes":
			v.Deletes, err = strconv.Atoi(value)
			v.DeletesNext = w.now.Add(time.Minute)
		case "own-deletes":
			v.OwnDeletes = fleet.Budget{Limited: true, Next: w.now.Add(30 * time.Second)}
			v.OwnDeletes.Left, err = strconv.Atoi(value)
		case "losses":
			v.Losses = fleet.Budget{Limited: true, Next: w.now.Add(time.Minute)}
			v.Losses.Left, err = strconv.Atoi(value)
		case "repairs":
			v.MaxRepairs, err = strconv.Atoi(value)
		case "eligible":
			v.Aging.Eligible, err = time.ParseDuration(value)
		case "forced":
			v.Aging.Forced, err = time.ParseDuration(value)
		case "on-demand-age":
			v.Aging.OnDemand, err = time.ParseDuration(value)
		case "proving":
			v.SettleTime, err = time.ParseDuration(value)
		case "hash":
			g.InfraHash = value
		case "window":
			v.RotationBlocked = fleet.Block{By: fleet.BlockerWindow, Why: "no maintenance window is open", Until: w.now.Add(time.Hour)}
			if value == "open" {
				v.RotationBlocked = fleet.Block{}
			}
		case "held":
			g.Blocked = value
		case "retired":
			id, skip := strings.CutSuffix(value, "!")
			g.Retired = append(g.Retired, fleet.Retired{ID: identity.ID(id), SkipDrain: skip})
		case "blocked":
			v.CreatesBlocked = fleet.Block{Why: value, Until: w.now.Add(time.Minute)}
			if value == "" {
				v.CreatesBlocked = fleet.Block{}
			}
		default:
			err = fmt.Errorf("unknown setting %q", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) addInstance(args []string) error {
	in := fleet.Instance{ID: identity.ID(args[0]), Group: web, State: fleet.State(args[1]), Created: w.now, Power: fleet.Up}
	switch {
	case in.State == fleet.Pending:
		in.Power = fleet.NoVM
	case in.State.Registered():
		in.Reported = true
	}
	for _, arg := range args[2:] {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "age":
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			in.Created = w.now.Add(-d)
		case "on-demand":
			in.OnDemand = true
		case "replacement":
			in.Replacement = identity.ID(value)
		case "hash":
			in.InfraHash = value
		case "unheard":
			in.Reported = false
		case "unsent":
			in.Power = fleet.Unasked
		case "replace-first":
			in.ReplaceFirst = true
		case "condemning":
			in.Condemning = fleet.Reason(value)
		case "writing":
			in.Writing = true
		case "hold":
			reason, text, _ := strings.Cut(value, ":")
			d, err := time.ParseDuration(text)
			if err != nil {
				return err
			}
			in.Hold = fleet.Hold{Reason: fleet.HoldReason(reason), Since: w.now, Until: w.now.Add(d)}
		default:
			return fmt.Errorf("unknown setting %q", key)
		}
	}
	if in.State.Registered() {
		in.RegisteredAt = in.Created
	}
	w.view.Instances = append(w.view.Instances, in)
	return nil
}

// notice ID [DURATION]
func (w *world) notice(args []string) error {
	in := w.find(identity.ID(args[0]))
	in.Notice.Action = "terminate"
	if len(args) == 1 {
		return nil
	}
	left, err := time.ParseDuration(args[1])
	in.Notice.Deadline = w.now.Add(left)
	return err
}

// event ID EVENT [REASON] [POWER]
func (w *world) event(args []string) error {
	in := w.find(identity.ID(args[0]))
	if in == nil {
		return fmt.Errorf("no instance %s", args[0])
	}
	i := slices.IndexFunc(fleet.Events(), func(e fleet.Event) bool { return e.String() == args[1] })
	if i < 0 {
		return fmt.Errorf("no event %s", args[1])
	}
	next, err := in.State.On(fleet.Events()[i])
	if err != nil {
		return err
	}
	if in.State = next; in.RegisteredAt.IsZero() && next.Registered() {
		in.RegisteredAt = w.now
	}
	if len(args) > 2 {
		in.Verdict = fleet.Reason(args[2])
	}
	if len(args) > 3 {
		in.Power = map[string]fleet.Power{"no-vm": fleet.NoVM, "up": fleet.Up, "down": fleet.Down, "gone": fleet.Gone}[args[3]]
	}
	return nil
}

func (w *world) describe(d fleet.Decision) []string {
	c := d.Counts
	out := []string{fmt.Sprintf("desired %d, actual %d: live %d (%d pending, %d provisioning, %d running), sick %d, pairs %d, leaving %d, on demand %d",
		c.Desired, c.Actual, c.Live, c.Pending, c.Provisioning, c.Running, c.Sick, c.Pairs, c.Leaving, c.OnDemand)}
	for _, a := range d.Actions {
		out = append(out, "- "+a.String())
	}
	for _, n := range d.Notes {
		held := n.What
		if n.ID != "" {
			held += " " + string(n.ID)
		}
		out = append(out, fmt.Sprintf("held: %s: %s", held, n.Why))
	}
	if !d.Wake.IsZero() {
		out = append(out, "wake in "+d.Wake.Sub(w.now).String())
	}
	return out
}

func (w *world) show() []string {
	var out []string
	for _, in := range w.view.Instances {
		line := fmt.Sprintf("%s %s", in.ID, in.State)
		if in.Replacement != "" {
			line += " → " + string(in.Replacement)
		}
		if in.Removal.Reason != "" {
			line += " (" + string(in.Removal.Reason) + ")"
		}
		out = append(out, line)
	}
	return out
}
