package seeds

import (
	"regexp"
	"runtime"
	"strings"
)

// lostQueue is a goroutine that the priority queue of controller-runtime 0.24 leaves behind
// when it is shut down while it hands out an object:
// https://github.com/kubernetes-sigs/controller-runtime/issues/3538, mended in 0.25.
const lostQueue = "priorityqueue.(*priorityqueue[...]).handleReadyItems"

// forgive lets a panic go on, unless it says that a bubble whose run has ended has goroutines
// left, and these are lost queues.
func forgive(panicked any, bubble string) {
	if panicked == nil {
		return
	}
	err, isError := panicked.(error)
	if !isError || !strings.Contains(err.Error(), "main bubble goroutine has exited") || !lostQueuesAlone(stack(true), bubble) {
		panic(panicked)
	}
}

// lostQueuesAlone reports whether a bubble has goroutines, and all are lost queues.
func lostQueuesAlone(goroutines, bubble string) bool {
	found := false
	for g := range strings.SplitSeq(goroutines, "\n\n") {
		if bubble == "" || bubbleOf(g) != bubble {
			continue
		}
		if !strings.Contains(g, lostQueue) {
			return false
		}
		found = true
	}
	return found
}

var bubbleHeader = regexp.MustCompile(`^goroutine \d+ \[[^]]*synctest bubble (\d+)`)

// bubbleOf is the number of the bubble of a goroutine; empty: it is in none.
func bubbleOf(goroutine string) string {
	if m := bubbleHeader.FindStringSubmatch(goroutine); m != nil {
		return m[1]
	}
	return ""
}

// stack is that of this goroutine, or of all.
func stack(all bool) string {
	for size := 1 << 16; ; size *= 4 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, all); n < size {
			return string(buf[:n])
		}
	}
}
