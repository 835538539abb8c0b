package lifecycle

import (
	"testing"
	"time"
)

// M52: two live answers, two seconds or more apart, each of them NotFound or another UID. All else,
// however often and for however long, is no proof.
func TestM52_TwoLiveAnswers(t *testing.T) {
	absent, other, there, failed := Look{Answered: true}, Look{Answered: true, UID: "other"}, Look{Answered: true, UID: "node-1"}, Look{}
	for _, tt := range []struct {
		name  string
		looks []Look
		apart time.Duration
		want  bool
	}{
		{"none", nil, time.Hour, false},
		{"one", []Look{absent}, time.Hour, false},
		{"two", []Look{absent, absent}, 2 * time.Second, true},
		{"two, too close", []Look{absent, absent}, 1999 * time.Millisecond, false},
		{"three, the first and the last far enough apart", []Look{absent, absent, absent}, time.Second, true},
		{"another UID, twice", []Look{other, other}, 2 * time.Second, true},
		{"gone, then another UID", []Look{absent, other}, 2 * time.Second, true},
		{"a time-out", []Look{absent, failed}, time.Minute, false},
		{"a time-out in between begins anew", []Look{absent, failed, absent}, time.Minute, false},
		{"and then twice", []Look{absent, failed, absent, absent}, time.Minute, true},
		{"it is there after all", []Look{absent, there, absent}, time.Minute, false},
		{"it is there", []Look{there, there}, time.Minute, false},
		{"an hour of refusals", []Look{failed, failed, failed}, 20 * time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a Absence
			for i, look := range tt.looks {
				a = a.Next("node-1", look, now.Add(time.Duration(i)*tt.apart))
			}
			if got := a.Confirmed("node-1"); got != tt.want {
				t.Errorf("confirmed: %v", got)
			}
			if a.Confirmed("") || a.Confirmed("node-2") {
				t.Error("confirmed for a Node that was not asked for")
			}
		})
	}
}

// What was counted for one Node says nothing of the next, and a clock that goes back proves nothing.
func TestM52_AnswersAreOfOneNode(t *testing.T) {
	a := Absence{}.Next("node-1", Look{Answered: true}, now)
	if since := a.Since("node-1"); !since.Equal(now) {
		t.Errorf("missed since %v", since)
	}
	b := a.Next("node-2", Look{Answered: true}, now.Add(time.Minute))
	if b.Confirmed("node-1") || b.Confirmed("node-2") || !b.Since("node-1").IsZero() {
		t.Errorf("%+v", b)
	}
	if c := a.Next("node-1", Look{Answered: true}, now.Add(-time.Hour)).Next("node-1", Look{Answered: true}, now.Add(-time.Hour+time.Second)); c.Confirmed("node-1") {
		t.Errorf("%+v", c)
	}
	if d := a.Next("", Look{Answered: true}, now.Add(time.Minute)); d != (Absence{}) {
		t.Errorf("a machine without a Node: %+v", d)
	}
}
