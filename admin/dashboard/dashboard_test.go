package dashboard

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }

// shard is one with three groups and five instances.
func shard(name string) Shard {
	return Shard{
		Name: name, Leader: "10.0.0.1:8993", Version: "v1.2.3", Term: 7,
		Groups: []*nstancev1.GroupStatus{
			{Key: "api", Size: 1, ActualSize: 1, Unhealthy: 1, Conditions: []*nstancev1.Condition{{Type: "sick"}, {Type: "scaling"}}},
			{Key: "general", Mode: "demand", ActualSize: 2, DemandUsage: &nstancev1.DemandUsage{Machines: 2, Idle: 1, Vcpu: 8, MemoryGib: 32, HourlyMicroUsd: 421_000}},
			{Key: "web", Size: 3, ActualSize: 2, Pending: 1, Pause: &nstancev1.Pause{Reason: "x"}, Conditions: []*nstancev1.Condition{{Type: "paused"}}},
		},
		Instances: []*nstancev1.InstanceStatus{
			{InstanceId: "knc068a3cp3thz5z2mv1gejwfta01", Group: "web", Status: "running", CreatedAt: ago(50 * time.Hour), LastSeen: ago(3 * time.Second), InstanceType: "t4g.medium", Addresses: []string{"10.0.0.11"}},
			{InstanceId: "knc068a3cp3thz5z2mv1gejwfta02", Group: "web", Status: "running", CreatedAt: ago(3 * time.Hour), LastSeen: ago(time.Second), InstanceType: "t4g.medium"},
			{InstanceId: "knc068a3cp3thz5z2mv1gejwfta03", Group: "web", Status: "pending", CreatedAt: ago(30 * time.Second), InstanceType: "t4g.medium"},
			{InstanceId: "knc068a3cp3thz5z2mv1gejwfta04", Group: "api", Status: "unhealthy", CreatedAt: ago(5 * time.Minute), LastSeen: ago(4 * time.Minute)},
			{InstanceId: "knc068a3cp3thz5z2mv1gejwfta05", Group: "api", Status: "deleting", Condemned: &nstancev1.Condemned{Reason: "unhealthy"}, CreatedAt: ago(time.Hour)},
		},
	}
}

// screen is a state of such a size, after some messages.
func screen(width, height int, messages ...Message) State {
	s := State{}
	for _, m := range append([]Message{Tick(now), Size{width, height}, Data{[]Shard{shard("local")}}}, messages...) {
		s, _ = Update(s, m)
	}
	return s
}

func keysOf(text string) []Message {
	var all []Message
	for _, k := range strings.Fields(text) {
		all = append(all, Key(k))
	}
	return all
}

func happened(n int) []Message {
	var all []Message
	for i := range n {
		kind := []string{"group", "instance", "error"}[i%3]
		all = append(all, Event{At: now.Add(time.Duration(i) * time.Second), Shard: "local", Kind: kind, Text: fmt.Sprintf("web  event %d", i)})
	}
	return all
}

func draw(s State) string {
	var b strings.Builder
	for _, l := range Draw(s) {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

func TestScreens(t *testing.T) {
	long := strings.Repeat("a line of a long text that is wider than the screen is, so that it has to be cut somewhere\n", 50)
	for name, messages := range map[string][]Message{
		"groups":    happened(12),
		"instances": append(happened(12), keysOf("2 j")...),
		"events":    append(happened(60), keysOf("3")...),
		"cost":      append(happened(12), keysOf("4 o o o o o o O")...),
		"filter":    append(happened(12), keysOf("2 / a p i")...),
		"describe":  {Answer{Title: "describe group web", Text: long}, Key("pgdown")},
		"scale":     keysOf("G s 5"),
		"help":      keysOf("?"),
		"failed":    {Data{[]Shard{{Name: "local", Err: "no server answered"}}}, Answer{Notice: "error: not found"}},
		"shards":    {Data{[]Shard{shard("eu-1a"), shard("us-1a")}}, Key("down")},
		"hostile":   {Data{[]Shard{{Name: "local", Groups: []*nstancev1.GroupStatus{{Key: "a\x1b[31m\nb\u009b2J"}}}}}},
	} {
		for _, size := range []Size{{80, 24}, {120, 40}} {
			t.Run(fmt.Sprintf("%s %dx%d", name, size.Width, size.Height), func(t *testing.T) {
				got := draw(screen(size.Width, size.Height, messages...))
				if lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n"); len(lines) != size.Height {
					t.Errorf("%d lines", len(lines))
				}
				for line := range strings.Lines(got) {
					if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > size.Width || strings.ContainsAny(line, "\x1b\u009b") {
						t.Errorf("%d wide: %q", n, line)
					}
				}
				path := filepath.Join("testdata", fmt.Sprintf("%s-%dx%d.txt", name, size.Width, size.Height))
				if *update {
					if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Errorf("%s (-update rewrites it)\n%s", path, cmp.Diff(string(want), got))
				}
			})
		}
	}
}

func TestKeysAskForWhatTheyName(t *testing.T) {
	web := Request{Shard: "local", Group: "web"}
	ask := func(verb Verb, change func(*Request)) Request {
		r := web
		r.Verb = verb
		if change != nil {
			change(&r)
		}
		return r
	}
	for keys, want := range map[string]Request{
		"q":             {Verb: Quit},
		"ctrl+c":        {Verb: Quit},
		"? ctrl+c":      {Verb: Quit},
		"r":             {Verb: Refresh},
		"G d":           ask(Describe, nil),
		"G enter":       ask(Describe, nil),
		"G e":           ask(Explain, nil),
		"G P":           ask(Plan, nil),
		"G p":           ask(Resume, nil), // it is paused
		"G s 5 enter":   ask(Scale, func(r *Request) { r.Size = 5 }),
		"G s 5 x enter": {},
		"G s enter":     {},
		"G s 5 esc":     {},
		"p m e enter":   {Verb: Pause, Shard: "local", Group: "api", Reason: "me"},
		"p enter":       {},
		"j s":           {}, // of mode demand
		"2 d":           {Verb: Describe, Shard: "local", Group: "web", Instance: "knc068a3cp3thz5z2mv1gejwfta01"},
		"2 P":           {Verb: Plan, Shard: "local", Group: "web"},
		"3 d":           {},
		"/ q":           {}, // it is typed
		"/ z z enter d": {}, // nothing matches
		"4 j j e":       ask(Explain, nil),
	} {
		s, got := screen(80, 24), Request{}
		for _, k := range strings.Fields(keys) {
			s, got = Update(s, Key(k))
		}
		if got != want {
			t.Errorf("%s asks for %+v, want %+v; notice %q", keys, got, want, s.Notice)
		}
	}
}

func TestStatesFollowFromMessages(t *testing.T) {
	for name, test := range map[string]struct {
		messages []Message
		want     func(State) bool
	}{
		"the cursor ends at the last row":          {keysOf("down down down down down"), func(s State) bool { return s.Cursor[Groups] == 2 }},
		"the cursor follows rows that are gone":    {append(keysOf("G"), Data{[]Shard{{Name: "local", Groups: shard("local").Groups[:1]}}}), func(s State) bool { return s.Cursor[Groups] == 0 }},
		"the cursor of each pane is its own":       {keysOf("j 2 j j 1"), func(s State) bool { return s.Cursor[Groups] == 1 && s.Cursor[Instances] == 2 }},
		"tab goes round":                           {keysOf("tab tab tab tab tab"), func(s State) bool { return s.Pane == Instances }},
		"shift+tab goes back":                      {keysOf("shift+tab"), func(s State) bool { return s.Pane == Cost }},
		"a filter is typed and corrected":          {keysOf("/ a x backspace p enter"), func(s State) bool { return s.Filter == "ap" && !s.Filtering && len(rows(s, Groups)) == 1 }},
		"esc clears the filter":                    {keysOf("/ a enter esc"), func(s State) bool { return s.Filter == "" }},
		"sorting goes through the columns":         {keysOf("o O"), func(s State) bool { return rows(s, Groups)[0].group == "web" }},
		"a shard that fails keeps what it said":    {[]Message{Data{[]Shard{{Name: "local", Err: "x"}}}}, func(s State) bool { return len(s.Shards[0].Groups) == 3 && s.Shards[0].Err == "x" }},
		"a text scrolls to its end and no farther": {[]Message{Answer{Text: strings.Repeat("x\n", 100)}, Key("end"), Key("down")}, func(s State) bool { return s.Dialog.Top == 100-19 }},
		"esc closes a text":                        {[]Message{Answer{Text: "x"}, Key("esc")}, func(s State) bool { return s.Dialog == nil }},
		"a wrong size says so and keeps asking":    {keysOf("G s x enter"), func(s State) bool { return s.Dialog != nil && strings.Contains(s.Notice, "whole number") }},
		"events are bounded": {happened(3 * mostEvents), func(s State) bool {
			return len(s.Happened) == mostEvents && strings.HasSuffix(s.Happened[mostEvents-1].Text, fmt.Sprint(3*mostEvents-1))
		}},
		"a resize keeps the rest": {append(keysOf("j"), Size{120, 40}), func(s State) bool { return s.Cursor[Groups] == 1 && s.Width == 120 }},
	} {
		if s := screen(80, 24, test.messages...); !test.want(s) {
			t.Errorf("%s: the screen is\n%s", name, draw(s))
		}
	}
}

// An old state is not changed by what comes after it.
func TestUpdateIsPure(t *testing.T) {
	before := screen(80, 24, append(happened(3), Answer{Text: strings.Repeat("x\n", 100)})...)
	was := draw(before)
	for _, m := range append(append(keysOf("down pgdown end"), happened(5)...), Data{[]Shard{shard("local")}}, Size{100, 30}) {
		Update(before, m)
	}
	if got := draw(before); got != was {
		t.Errorf("it has changed:\n%s", cmp.Diff(was, got))
	}
}

func TestNoSizeBreaksTheScreen(t *testing.T) {
	for width := range 130 {
		for _, height := range []int{0, 1, 2, 7, 8, 9, 24, 35, 36, 37, 60} {
			for _, keys := range []string{"", "2", "3", "4", "?", "G s", "/ x"} {
				s := screen(width, height, append(happened(20), keysOf(keys)...)...)
				if lines := Draw(s); len(lines) != height {
					t.Fatalf("%dx%d %q: %d lines", width, height, keys, len(lines))
				}
			}
		}
	}
}

// Somebody who presses a key has seen a row, and the rows may move before it arrives.
func TestAKeyIsMeantForTheRowThatWasUnderTheCursor(t *testing.T) {
	changed := shard("local")
	changed.Groups = append([]*nstancev1.GroupStatus{{Key: "aaa", Size: 9, ActualSize: 9}}, changed.Groups...)
	s := screen(80, 24, keysOf("j j")...)
	if row, _ := selected(s); row.group != "web" {
		t.Fatalf("the cursor is on %q", row.group)
	}
	s, _ = Update(s, Data{[]Shard{changed}})
	if _, r := Update(s, Key("p")); r.Verb != Resume || r.Group != "web" {
		t.Errorf("the key asks for %+v", r)
	}
	changed.Groups = changed.Groups[:2]
	s, _ = Update(s, Data{[]Shard{changed}})
	if row, ok := selected(s); !ok || row.group != "api" {
		t.Errorf("after it is gone the cursor is on %q", row.group)
	}
}
