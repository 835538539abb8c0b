package cache

import "sync/atomic"

// batchRows is how many rows do not wait for batchDelay.
const batchRows = 1000

// news is how tables tell the writer that there is something to write. Its methods never
// wait, and may be called under any lock.
type news struct {
	waiting atomic.Int64  // rows since the last batch, reports not counted
	wake    chan struct{} // something is to be written
	lazy    chan struct{} // a report is
	full    chan struct{} // so much that it should be written now
}

func newNews() *news {
	return &news{wake: make(chan struct{}, 1), lazy: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// add says that a row has changed, if it is news for the writer.
func (n *news) add(isNews bool) {
	if !isNews {
		return
	}
	if rows := n.waiting.Add(1); rows >= batchRows {
		signal(n.full)
	} else if rows == 1 {
		signal(n.wake)
	}
}

// later says that a report has come, if it is news for the writer.
func (n *news) later(isNews bool) {
	if isNews {
		signal(n.lazy)
	}
}

// reset is called before rows are taken: later ones wake the writer again.
func (n *news) reset() { n.waiting.Store(0) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
