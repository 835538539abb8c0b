package seeds

import (
	"errors"
	"testing"
	"testing/synctest"
)

// A goroutine that stays behind in a bubble is a finding, unless it is of the library's queue.
func TestWhatIsLeftBehind(t *testing.T) {
	const (
		root  = "goroutine 1 [running]:\nmain()\n\n"
		lost  = "goroutine 7 [chan send (durable), synctest bubble 5]:\nsigs.k8s.io/x/priorityqueue.(*priorityqueue[...]).handleReadyItems(0x1)\n"
		ours  = "goroutine 8 [select (durable), synctest bubble 5]:\nnstance.dev/operator/shards.run()\n"
		other = "goroutine 9 [select (durable), synctest bubble 50]:\nnstance.dev/operator/shards.run()\n"
	)
	for _, c := range []struct {
		name, goroutines, bubble string
		want                     bool
	}{
		{"a lost queue", root + lost, "5", true},
		{"two", root + lost + "\n" + lost, "5", true},
		{"beside another run", root + lost + "\n" + other, "5", true},
		{"and one of ours", root + lost + "\n" + ours, "5", false},
		{"one of ours", root + ours, "5", false},
		{"none", root, "5", false},
		{"an unknown bubble", root + lost, "", false},
	} {
		if got := lostQueuesAlone(c.goroutines, c.bubble); got != c.want {
			t.Errorf("%s: forgiven is %t", c.name, got)
		}
	}
}

func TestAPanicGoesOn(t *testing.T) {
	broken := errors.New("promise broken")
	defer func() {
		if p, _ := recover().(error); !errors.Is(p, broken) {
			t.Errorf("panicked with %v", p)
		}
	}()
	forgive(broken, "5")
}

func TestAGoroutineOfOursThatStaysBehindIsFound(t *testing.T) {
	var bubble string
	defer func() {
		if p := recover(); p == nil {
			t.Error("nobody has found it")
		}
	}()
	defer func() { forgive(recover(), bubble) }()
	synctest.Test(t, func(*testing.T) {
		if bubble = bubbleOf(stack(false)); bubble == "" {
			t.Error("the bubble has no number")
		}
		go func() { <-make(chan struct{}) }()
	})
}
