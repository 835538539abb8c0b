package session_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/settings"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const leader = "leader:8994"

func stamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

func TestHelloWelcomeReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		start := time.Now()
		m.run(settings.Report{}, leader)
		synctest.Wait()
		streams, reports := s.seen()
		if len(streams) != 1 || len(reports) != 1 || !reports[0].at.Equal(start) {
			t.Fatalf("%d streams and %d reports at once, want one of each", len(streams), len(reports))
		}
		if h := streams[0].hello; h.GetInstanceId() != m.id.String() || h.GetAgentVersion() != "1.2.3" || h.GetBootId() == "" {
			t.Errorf("hello %v", h)
		}
		time.Sleep(10*time.Minute + time.Second)
		_, reports = s.seen()
		if n := len(reports); n < 10 || n > 11 {
			t.Errorf("%d reports in ten minutes", n)
		}
		for i, r := range reports {
			if r.GetCount() != int64(i+1) || r.GetInstanceId() != m.id.String() || r.GetVersion() != "1.2.3" {
				t.Errorf("report %d: count %d, instance %q, version %q", i, r.GetCount(), r.GetInstanceId(), r.GetVersion())
			}
			if i == 0 {
				continue
			}
			if gap := r.at.Sub(reports[i-1].at); gap < 57*time.Second || gap > 63*time.Second {
				t.Errorf("report %d came %v after the one before, want 60s and at most 5%% more or less", i, gap)
			}
		}
		m.quit()
	})
}

func TestAnIntervalOfTheMachineOverridesTheServers(t *testing.T) {
	for _, tt := range []struct {
		name string
		when settings.Report
		want int // reports in a minute, the first included
		last int64
	}{
		{"own interval", settings.Report{Interval: 10 * time.Second}, 7, 7},
		{"disabled", settings.Report{Disabled: true}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMachine(t, life(month)), &shard{interval: time.Second}
				m.Serve(leader, agenttest.Script{Connect: s.connect})
				m.run(tt.when, leader)
				time.Sleep(65 * time.Second)
				_, reports := s.seen()
				if n := len(reports); n < tt.want-1 || n > tt.want+1 || (tt.want == 1 && n != 1) {
					t.Fatalf("%d reports, want about %d", n, tt.want)
				}
				if c := reports[0].GetCount(); tt.last == 0 && c != 0 {
					t.Errorf("count %d of the only report, want 0", c)
				}
				m.quit()
			})
		})
	}
}

// TestF1_ALeaderThatIsBackIsToldAtOnce: the stream outlived the lease of the leader,
// which welcomes the agent again under its new term.
func TestF1_ALeaderThatIsBackIsToldAtOnce(t *testing.T) {
	for name, when := range map[string]settings.Report{"reports": {}, "a single report": {Disabled: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMachine(t, life(month)), &shard{interval: time.Hour}
				m.Serve(leader, agenttest.Script{Connect: s.connect})
				m.run(when, leader)
				time.Sleep(time.Minute)
				s.send(t, welcomeIn(7, time.Hour))
				if _, reports := s.seen(); len(reports) != 1 {
					t.Errorf("%d reports after a repeated welcome, want the first one", len(reports))
				}
				s.send(t, welcomeIn(8, time.Hour))
				if streams, reports := s.seen(); len(streams) != 1 || len(reports) != 2 {
					t.Errorf("%d streams, %d reports; want one more report on the same stream", len(streams), len(reports))
				}
				m.quit()
			})
		})
	}
}

func TestFilesAreAppliedTogetherAndReportedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(10 * time.Second)
		modified := time.Now().Add(-time.Hour)
		s.send(t, file("a.json", `{"a":1}`, modified), file("b.env", "B=1\n", modified))
		if m.received("a.json") != "" {
			t.Fatal("a file is in place before the commit")
		}
		s.send(t, commit("sha256:1"))
		if m.received("a.json") != `{"a":1}` || m.received("b.env") != "B=1\n" {
			t.Fatal("the files are not in place after the commit")
		}
		time.Sleep(time.Second)
		_, reports := s.seen()
		if len(reports) != 2 {
			t.Fatalf("%d reports, want the first and one within a second of the commit", len(reports))
		}
		r := reports[1]
		if r.GetConfigHash() != "sha256:1" || !r.GetFiles()["a.json"].GetLastModified().AsTime().Equal(modified) {
			t.Errorf("report after the commit: hash %q, files %v", r.GetConfigHash(), r.GetFiles())
		}

		// A refused file keeps its whole batch out, and the server is told within a second.
		s.send(t, file("a.json", `{"a":2}`, modified), file("c.json", `{"c":`, modified), commit("sha256:2"))
		time.Sleep(2 * time.Second)
		_, reports = s.seen()
		r = reports[len(reports)-1]
		if m.received("a.json") != `{"a":1}` || r.GetConfigHash() != "sha256:1" || !strings.Contains(r.GetFiles()["c.json"].GetError(), "JSON") {
			t.Errorf("after a refused file: content %q, hash %q, files %v", m.received("a.json"), r.GetConfigHash(), r.GetFiles())
		}
		m.quit()
	})
}

func TestExtraReportsKeepTheirDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(10 * time.Second)
		for range 50 {
			s.send(t, commit("sha256:1"))
			time.Sleep(100 * time.Millisecond)
		}
		_, reports := s.seen()
		for i := 1; i < len(reports); i++ {
			if gap := reports[i].at.Sub(reports[i-1].at); gap < time.Second {
				t.Errorf("report %d came %v after the one before", i, gap)
			}
		}
		if n := len(reports); n < 5 || n > 7 {
			t.Errorf("%d reports for 50 commits in 5s, want one a second and the first", n)
		}
		m.quit()
	})
}

func TestFilesStagedWhenTheStreamEndsAreDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		stop := m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		synctest.Wait()
		s.send(t, file("old.txt", "old", time.Now()))
		stop()
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		time.Sleep(20 * time.Second)
		s.send(t, file("new.txt", "new", time.Now()), commit("sha256:1"))
		if m.received("old.txt") != "" || m.received("new.txt") != "new" {
			t.Errorf("old file %q, new file %q", m.received("old.txt"), m.received("new.txt"))
		}
		m.quit()
	})
}

// A stream may outlive a leader, and its successor knows nothing of what was staged.
func TestFilesStagedByAnotherLeaderAreDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		synctest.Wait()
		s.send(t, file("a.txt", "of the same leader", time.Now()), welcome(2*time.Minute), commit("sha256:1"))
		s.send(t, file("b.txt", "of the one before", time.Now()))
		next := welcome(time.Minute)
		next.GetWelcome().Term++
		s.send(t, next, commit("sha256:2"))
		if m.received("a.txt") == "" || m.received("b.txt") != "" {
			t.Errorf("a.txt is %q, b.txt is %q", m.received("a.txt"), m.received("b.txt"))
		}
		m.quit()
	})
}

func TestS14_OnlyPublicHalvesLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		synctest.Wait()
		ask := func(names ...string) *nstancev1.ServerMessage {
			return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_KeyRequest{KeyRequest: &nstancev1.KeyRequest{KeyNames: names}}}
		}
		s.send(t, ask(), ask("kubelet.server", "../evil", "kubelet.client"), ask("kubelet.server"), &nstancev1.ServerMessage{})
		s.mu.Lock()
		defer m.quit()
		defer s.mu.Unlock()
		if len(s.submits) != 2 || len(s.submits[0].GetKeys()) != 2 || len(s.submits[1].GetKeys()) != 1 {
			t.Fatalf("submitted %v", s.submits)
		}
		first, again := s.submits[0].GetKeys()[0], s.submits[1].GetKeys()[0]
		if string(first.GetPublicKeyPem()) != string(again.GetPublicKeyPem()) {
			t.Error("the same name has another key when asked again")
		}
		for _, k := range s.submits[0].GetKeys() {
			if !strings.HasPrefix(string(k.GetPublicKeyPem()), "-----BEGIN PUBLIC KEY-----") {
				t.Errorf("key %s: %s", k.GetFilename(), k.GetPublicKeyPem())
			}
		}
		if s.submits[0].GetRequestId() == s.submits[1].GetRequestId() {
			t.Error("two submissions with one request id")
		}
	})
}

func TestGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		synctest.Wait()
		if took := m.quit(); took != 0 {
			t.Errorf("goodbye to a server that answers took %v", took)
		}
		if streams, _ := s.seen(); !streams[0].bye {
			t.Error("the server saw no half-close")
		}
	})
}

func TestGoodbyeToAServerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, life(month))
		m.Serve(leader, agenttest.Script{Connect: func(stream agenttest.Stream, _ identity.Peer) error {
			if err := stream.Send(welcome(time.Minute)); err != nil {
				return err
			}
			<-stream.Context().Done()
			return nil
		}})
		m.run(settings.Report{}, leader)
		synctest.Wait()
		if took := m.quit(); took != 2*time.Second {
			t.Errorf("it took %v, want to wait for 2s", took)
		}
	})
}

func TestStopWhileThereIsNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, life(month))
		m.run(settings.Report{}, leader)
		time.Sleep(time.Hour)
		if took := m.quit(); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAServerThatNeverWelcomesIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve("mute:1", agenttest.Script{Connect: func(stream agenttest.Stream, _ identity.Peer) error {
			<-stream.Context().Done()
			return nil
		}})
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, "mute:1", leader)
		time.Sleep(11 * time.Second)
		if streams, _ := s.seen(); len(streams) != 1 {
			t.Errorf("%d streams with the other server", len(streams))
		}
		m.quit()
	})
}

func TestF35_AnAgentThatIsPushedOutSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, life(month))
		var streams atomic.Int32
		m.Serve(leader, agenttest.Script{Connect: func(stream agenttest.Stream, _ identity.Peer) error {
			streams.Add(1)
			if err := stream.Send(welcome(time.Minute)); err != nil {
				return err
			}
			time.Sleep(500 * time.Millisecond)
			return status.Error(codes.Aborted, "replaced by a newer stream")
		}})
		m.run(settings.Report{}, leader)
		time.Sleep(10 * time.Minute)
		if n := streams.Load(); n < 40 || n > 200 {
			t.Errorf("%d streams in ten minutes, want one every 5s or so", n)
		}
		m.quit()
	})
}
