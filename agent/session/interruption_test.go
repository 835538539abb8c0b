package session_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/interruption"
	"nstance.dev/agent/settings"
)

// spotMachine makes the machine a spot instance of AWS; the cloud gives notice once taken
// is set.
func (m *machine) spotMachine(taken *atomic.Bool) {
	m.t.Helper()
	listens, closed := make(chan net.Conn), make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			fmt.Fprint(w, "token")
		case r.URL.Path == "/latest/meta-data/instance-life-cycle":
			fmt.Fprint(w, "spot")
		case taken.Load():
			fmt.Fprint(w, `{"action": "terminate", "time": "2000-01-01T01:00:00Z"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(pipeListener{listens, closed}) }()
	m.t.Cleanup(func() { _ = server.Close(); <-served })
	m.spot = interruption.New(interruption.Options{
		Provider: interruption.AWS,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			select {
			case listens <- theirs:
				return ours, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = m.spot.Run(ctx) }()
	m.t.Cleanup(stop)
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(169, 254, 169, 254)} }

// TestF34_NoticeIsReportedAtOnceAndFromThenOn, with reports each minute and without any.
func TestF34_NoticeIsReportedAtOnceAndFromThenOn(t *testing.T) {
	for name, setting := range map[string]settings.Report{"reports each minute": {}, "reports disabled": {Disabled: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
				m.Serve(leader, agenttest.Script{Connect: s.connect})
				var taken atomic.Bool
				m.spotMachine(&taken)
				m.run(setting, leader)
				time.Sleep(30*time.Second + time.Millisecond) // between two questions
				if _, reports := s.seen(); len(reports) != 1 || reports[0].TerminationNotice != nil {
					t.Errorf("before the notice: %v, want one report without it", reports)
				}
				taken.Store(true)
				time.Sleep(2 * time.Second)
				m.reported(s, 2)
				m.quit()
				m.run(setting, leader)
				synctest.Wait()
				m.reported(s, 3) // the first of the next stream
				m.quit()
			})
		})
	}
}

// reported checks that there are so many reports, and that the last has the notice.
func (m *machine) reported(s *shard, want int) {
	m.t.Helper()
	_, reports := s.seen()
	if len(reports) != want {
		m.t.Fatalf("%d reports, want %d", len(reports), want)
	}
	notice := reports[want-1].TerminationNotice
	if notice.GetAction() != "terminate" || !notice.GetDeadline().AsTime().Equal(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)) {
		m.t.Errorf("report %d has the notice %v", want, notice)
	}
}
