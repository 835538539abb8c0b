package cache

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// How the writer paces itself. Reports are the bulk of all changes, and nobody
// reads them from the file in a hurry: it has no more use for them after a restart. What
// is said of a file when it is sent, and by the report that follows, is one write.
const (
	batchDelay  = 100 * time.Millisecond // from a change to its batch, at most
	reportDelay = 5 * time.Second        // the same for reports
	firstRetry  = time.Second            // after the file could not be written
	lastRetry   = time.Minute
)

// ErrClosed says that the cache has been closed.
var ErrClosed = errors.New("cache is closed")

// writer is the only one that touches the file. It has one remedy for whatever
// goes wrong there: begin a new file and write all rows into it.
type writer struct {
	sources []source
	news    *news
	log     *slog.Logger
	path    string
	open    opener

	flushes chan chan error // each answered after a batch
	stop    chan struct{}
	done    chan struct{}
	closing sync.Once

	mu    sync.Mutex
	fault error // why there is no file

	// Of the goroutine alone.
	db       *sql.DB
	retry    time.Duration // until the next attempt; 0: the file is well
	closeErr error         // set before done is closed
}

// source is tables, and the lock that guards them.
type source struct {
	lock   sync.Locker
	tables []mirrored
}

func newWriter(n *news, path string, open opener, log *slog.Logger, sources []source) *writer {
	return &writer{
		sources: sources, news: n, log: log, path: path, open: open,
		flushes: make(chan chan error), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// salvage reads what the file of the process before holds.
func (w *writer) salvage(ctx context.Context) survivors {
	if _, err := os.Stat(w.path); errors.Is(err, fs.ErrNotExist) {
		return survivors{}
	}
	s, err := w.read(ctx)
	switch {
	case errors.Is(err, errLayout):
		w.log.InfoContext(ctx, "cache file has another layout, beginning a new one")
	case err != nil:
		w.log.WarnContext(ctx, "cache file is damaged, beginning a new one", "error", err)
	}
	return s
}

func (w *writer) read(ctx context.Context) (survivors, error) {
	db, err := w.open(w.path)
	if err != nil {
		return survivors{}, err
	}
	s, err := readSurvivors(ctx, db)
	return s, errors.Join(err, db.Close())
}

// start begins the file, with what survived already in it, and the goroutine.
func (w *writer) start() {
	// What is wrong shows in degraded and is tried again.
	_ = w.write()
	go w.run()
}

func (w *writer) run() {
	defer close(w.done)
	timer := time.NewTimer(w.retry)
	if w.retry == 0 {
		timer.Stop()
	}
	armed := w.retry // for how long; 0: not
	arm := func(d time.Duration) {
		if armed == 0 || d < armed {
			armed = d
			timer.Reset(d)
		}
	}
	for {
		select {
		case <-w.news.wake:
			if w.retry == 0 {
				arm(batchDelay)
			}
			continue
		case <-w.news.lazy:
			if w.retry == 0 {
				arm(reportDelay)
			}
			continue
		case answer := <-w.flushes:
			if w.retry == 0 {
				_ = w.write()
			}
			answer <- w.degraded()
		case <-w.news.full:
			if w.retry == 0 {
				_ = w.write()
			}
		case <-timer.C:
			armed = 0
			_ = w.write()
		case <-w.stop:
			w.finish()
			return
		}
		if w.retry != 0 {
			arm(w.retry)
		}
	}
}

// write brings the file up to date, and first begins one if there is none.
func (w *writer) write() error {
	w.news.reset() // before the rows are taken: later ones wake it again
	if w.db == nil {
		db, err := beginFile(w.path, w.open)
		if err != nil {
			return w.fail(err)
		}
		w.db = db
		w.eachTable(mirrored.turnOn)
	}
	if batches := w.takeChanges(); len(batches) > 0 {
		if err := writeBatches(w.db, batches); err != nil {
			return w.fail(errors.Join(err, w.db.Close()))
		}
	}
	w.retry = 0
	if w.setFault(nil) != nil {
		w.log.Info("cache file is written again")
	}
	return nil
}

// eachTable calls do with each table, under the lock that guards it.
func (w *writer) eachTable(do func(mirrored)) {
	for _, s := range w.sources {
		s.lock.Lock()
		for _, t := range s.tables {
			do(t)
		}
		s.lock.Unlock()
	}
}

// takeChanges returns what differs from the file, to be written at once.
func (w *writer) takeChanges() []batch {
	var batches []batch
	w.eachTable(func(t mirrored) {
		if b := t.take(); b != nil {
			batches = append(batches, b)
		}
	})
	return batches
}

// fail gives the file up until the next retry. It logs the first of a row of
// failures.
func (w *writer) fail(err error) error {
	w.db = nil
	w.eachTable(mirrored.turnOff)
	w.retry = min(max(2*w.retry, firstRetry), lastRetry)
	if w.setFault(err) == nil {
		w.log.Error("cache file cannot be written, serving from memory", "error", err)
	}
	return err
}

// finish writes what is left and collects nothing from then on.
func (w *writer) finish() {
	err := w.write()
	if w.db != nil {
		err = w.db.Close()
		w.db = nil
	}
	w.eachTable(mirrored.turnOff)
	w.closeErr = err
}

func (w *writer) setFault(err error) (old error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, w.fault = w.fault, err
	return old
}

func (w *writer) degraded() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

func (w *writer) flush(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case w.flushes <- answer:
		// The writer answers in any case, after at most one batch.
		select {
		case err := <-answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	case <-w.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) close() error {
	w.closing.Do(func() { close(w.stop) })
	<-w.done
	return w.closeErr
}
