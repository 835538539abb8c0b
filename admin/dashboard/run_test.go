package dashboard

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is a source that says when it is asked.
type quiet struct {
	asked chan Request
	once  sync.Once
	began chan struct{}
}

func (q *quiet) Look(context.Context) []Shard {
	q.once.Do(func() { close(q.began) })
	return []Shard{shard("local")}
}

func (q *quiet) Watch(ctx context.Context, happened func(Event)) {
	happened(Event{At: now, Shard: "local", Kind: "group", Text: "web  size 3"})
	<-ctx.Done()
}

func (q *quiet) Do(_ context.Context, r Request) Answer {
	q.asked <- r
	return Answer{Notice: "done"}
}

// terminal is what a dashboard writes to.
type terminal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *terminal) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func TestRunCarriesOutWhatKeysAskForAndEnds(t *testing.T) {
	for name, end := range map[string]func(io.Writer, context.CancelFunc){
		"by a key":           func(keys io.Writer, _ context.CancelFunc) { _, _ = keys.Write([]byte("q")) },
		"by an interruption": func(_ io.Writer, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, keys := io.Pipe()
			q := &quiet{asked: make(chan Request, 1000), began: make(chan struct{})}
			ended := make(chan error, 1)
			go func() {
				ended <- Run(ctx, q, Options{
					In: in, Out: &terminal{}, Interval: time.Hour, Now: func() time.Time { return now }, Environment: []string{"TERM=xterm"},
				})
			}()
			<-q.began
			for asked := false; !asked; { // keys that come before the first answer ask for nothing
				if _, err := keys.Write([]byte("e")); err != nil {
					t.Fatal(err)
				}
				select {
				case r := <-q.asked:
					asked = true
					if r.Verb != Explain || r.Group != "api" {
						t.Errorf("it asks for %+v", r)
					}
				case <-time.After(20 * time.Millisecond):
				}
			}
			end(keys, cancel)
			if err := <-ended; err != nil {
				t.Errorf("it ends with %v", err)
			}
			_ = keys.Close()
		})
	}
}

// slow is a source whose first look is not answered before it may be.
type slow struct {
	quiet
	looks atomic.Int64
	may   chan struct{}
}

func (s *slow) Look(context.Context) []Shard {
	n := s.looks.Add(1)
	if n == 1 {
		close(s.began)
		<-s.may
	}
	return []Shard{{Name: "local", Term: n}}
}

// An answer that comes late does not take the place of a newer one, and the next look follows it all the same.
func TestALateAnswerIsNotShown(t *testing.T) {
	s := &slow{quiet: quiet{began: make(chan struct{})}, may: make(chan struct{})}
	p := &program{ctx: t.Context(), source: s, opts: Options{Interval: time.Hour, Now: func() time.Time { return now }}}
	late := make(chan any, 1)
	go func() { late <- p.look() }()
	<-s.began
	p.Update(p.lookOnce()())
	close(s.may)
	if _, next := p.Update(<-late); next == nil {
		t.Error("after the late answer nobody looks again")
	}
	if got := p.state.Shards[0].Term; got != 2 {
		t.Errorf("the answer to look %d is shown, and look 2 began last", got)
	}
}
