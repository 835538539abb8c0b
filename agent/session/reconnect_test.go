package session_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/settings"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const day = 24 * time.Hour

func TestL6_BackWithin30SecondsOfANewLeader(t *testing.T) {
	for _, outage := range []time.Duration{15 * time.Second, 4 * time.Minute} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
				stop := m.Serve(leader, agenttest.Script{Connect: s.connect})
				m.run(settings.Report{}, leader)
				time.Sleep(time.Minute)
				stop()
				time.Sleep(outage)
				m.Serve(leader, agenttest.Script{Connect: s.connect})
				time.Sleep(11 * time.Second)
				streams, _ := s.seen()
				if len(streams) != 2 {
					t.Errorf("%d streams, want a second one", len(streams))
				}
				m.quit()
			})
		})
	}
}

func TestAfterALongAbsenceAMinuteIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.run(settings.Report{}, leader)
		time.Sleep(24 * time.Hour)
		before := len(m.Dials())
		if before > 24*60*60/20 {
			t.Errorf("%d attempts in a day without a server", before)
		}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		time.Sleep(61 * time.Second)
		if streams, _ := s.seen(); len(streams) != 1 {
			t.Errorf("%d streams a minute after the server came back", len(streams))
		}
		m.quit()
	})
}

func TestF31_AHalfOpenConnectionIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(30 * time.Second)
		m.Freeze()
		time.Sleep(15*time.Second + 2*time.Second) // ping and its timeout, then the pause
		if streams, _ := s.seen(); len(streams) != 2 {
			t.Errorf("%d streams, want a second one after the first went silent", len(streams))
		}
		m.quit()
	})
}

func TestAStandbyNamesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve("standby:8994", agenttest.Script{Leader: leader})
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, "standby:8994", "nowhere:8994")
		synctest.Wait()
		if streams, _ := s.seen(); len(streams) != 1 {
			t.Errorf("%d streams with the leader, want one without a pause", len(streams))
		}
		m.quit()
	})
}

func TestTwoStandbysThatNameEachOtherDoNotKeepTheAgentRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, life(month))
		m.Serve("a:1", agenttest.Script{Leader: "b:1"})
		m.Serve("b:1", agenttest.Script{Leader: "a:1"})
		m.run(settings.Report{}, "a:1")
		time.Sleep(time.Minute)
		if n := len(m.Dials()); n > 120 {
			t.Errorf("%d dials in a minute", n)
		}
		m.quit()
	})
}

func TestAServerOfAnotherShardIsNotSpokenTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Shard: "other", Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(time.Minute)
		if streams, _ := s.seen(); len(streams) != 0 {
			t.Errorf("%d streams with a server that proves another shard's name", len(streams))
		}
		m.quit()
	})
}

func TestL10_TheCertificateIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(day)), &shard{interval: time.Hour}
		var renewals []time.Time
		s.onRenew = func(r *nstancev1.Renew) *nstancev1.Renewed {
			renewals = append(renewals, time.Now())
			return &nstancev1.Renewed{RequestId: r.GetRequestId(), ClientCertificatePem: m.Issue(r.GetPublicKeyPem(), m.id, day)}
		}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		start := time.Now()
		m.run(settings.Report{}, leader)
		time.Sleep(day*2/3 + 10*time.Minute)
		synctest.Wait()
		if len(renewals) != 1 || renewals[0].Sub(start) < day*2/3-10*time.Minute || renewals[0].Sub(start) > day*2/3 {
			t.Fatalf("renewed at %v of a life of %v", renewals, day)
		}
		streams, _ := s.seen()
		if len(streams) != 2 || streams[0].serial == streams[1].serial || !streams[0].bye {
			t.Fatalf("streams %+v, want a goodbye and then one with a new certificate", streams)
		}
		if wait := streams[1].at.Sub(renewals[0]); wait > time.Minute {
			t.Errorf("the new stream came %v after the certificate", wait)
		}
		if id, err := m.cred.Identity(); err != nil || id.Peer.Serial != streams[1].serial {
			t.Errorf("stored identity %v, %v", id.Peer.Serial, err)
		}
		m.quit()
	})
}

func TestL10_ARefusedRenewalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(day)), &shard{interval: time.Hour}
		var attempts atomic.Int32
		s.onRenew = func(r *nstancev1.Renew) *nstancev1.Renewed {
			if attempts.Add(1) < 4 {
				return &nstancev1.Renewed{RequestId: r.GetRequestId(), Code: "Unavailable", Message: "storage is away"}
			}
			return &nstancev1.Renewed{RequestId: r.GetRequestId(), ClientCertificatePem: m.Issue(r.GetPublicKeyPem(), m.id, day)}
		}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(day*2/3 + 30*time.Minute)
		if n := attempts.Load(); n != 1 {
			t.Errorf("%d attempts within half an hour, want 1", n)
		}
		time.Sleep(4 * time.Hour)
		if streams, _ := s.seen(); attempts.Load() != 4 || len(streams) != 2 {
			t.Errorf("%d attempts, %d streams; want a new stream after the fourth attempt", attempts.Load(), len(streams))
		}
		m.quit()
	})
}

func TestL10_RenewalSurvivesAnOutageOfAQuarterOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(day)), &shard{interval: time.Minute}
		s.onRenew = func(r *nstancev1.Renew) *nstancev1.Renewed {
			return &nstancev1.Renewed{RequestId: r.GetRequestId(), ClientCertificatePem: m.Issue(r.GetPublicKeyPem(), m.id, day)}
		}
		m.run(settings.Report{}, leader)
		time.Sleep(day*2/3 + day/4)
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		time.Sleep(5 * time.Minute)
		streams, _ := s.seen()
		if len(streams) != 2 || streams[0].serial == streams[1].serial {
			t.Errorf("streams %+v, want one and then one with a new certificate", streams)
		}
		m.quit()
	})
}

func TestF33_AnExpiredCertificateHoldsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(time.Hour)), &shard{interval: time.Minute}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		time.Sleep(2 * time.Hour)
		m.run(settings.Report{}, leader)
		time.Sleep(24 * time.Hour)
		if n := len(m.Dials()); n != 0 {
			t.Errorf("%d dials with an expired certificate", n)
		}
		if took := m.quit(); took != 0 {
			t.Errorf("it took %v to stop", took)
		}
	})
}
