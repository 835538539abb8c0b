package shard

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/refusal"
)

// certified is who a certificate names.
func certified(t *testing.T, answer *nstancev1.Renewed) identity.Peer {
	t.Helper()
	block, _ := pem.Decode(answer.ClientCertificatePem)
	if block == nil {
		t.Fatalf("no certificate: %v", answer)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := identity.PeerFromCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	return peer
}

// TestF40_RenewalWithAnotherKey: whoever has stolen a certificate cannot move the identity to
// a key of their own, and the attempt raises an alarm.
func TestF40_RenewalWithAnotherKey(t *testing.T) {
	withAgentsKey(t, func(t *testing.T, w *world, peer identity.Peer, key ed25519.PrivateKey) {
		s := w.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		answer := s.renewed(t, newKey(t))
		if answer.Code != string(refusal.PermissionDenied) || len(answer.ClientCertificatePem) > 0 {
			t.Errorf("a renewal with another key: %v", answer)
		}
		if got := errorsOf(w, peer.ID, "auth"); len(got) != 1 {
			t.Errorf("alarms: %q, want one", got)
		}
		if rec := recordOf(t, w, peer.ID); rec.PublicKeyPEM != string(publicPEM(t, key)) {
			t.Error("the record has the other key")
		}
		if again := s.renewed(t, key); len(again.ClientCertificatePem) == 0 {
			t.Errorf("the machine's own renewal afterwards: %v", again)
		}
	})
}

// TestF40_ASupersededCertificateOfALiveInstance: a thief with certificate and key renews
// twice. The machine's own next attempt is refused, and names the instance in an alarm,
// which is told once.
func TestF40_ASupersededCertificateOfALiveInstance(t *testing.T) {
	withAgentsKey(t, func(t *testing.T, w *world, peer identity.Peer, key ed25519.PrivateKey) {
		thief := peer
		for range 2 {
			s := w.open(thief)
			s.say(hello(peer.ID))
			thief = certified(t, s.renewed(t, key))
			s.cut()
			synctest.Wait()
		}
		if got := errorsOf(w, peer.ID, "auth"); len(got) != 0 {
			t.Errorf("alarms before two have shown themselves: %q", got)
		}
		for range 3 {
			if err := w.open(peer).end(t); !refusedWith(err, refusal.PermissionDenied) {
				t.Errorf("the superseded certificate: %v", err)
			}
			time.Sleep(5 * time.Second)
		}
		if got := errorsOf(w, peer.ID, "auth"); len(got) != 1 {
			t.Errorf("alarms: %q, want one", got)
		}
	})
}

// TestF43_TheKeyIsTheRecords: a certificate that the authority has signed, with a serial that
// is in force, and another key.
func TestF43_TheKeyIsTheRecords(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		forged := peer
		forged.Key = [ed25519.PublicKeySize]byte(newKey(t).Public().(ed25519.PublicKey))
		if err := w.reign().AdmitAgent(forged); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("another key: %v", err)
		}
		if got := errorsOf(w, peer.ID, "auth"); len(got) != 1 {
			t.Errorf("alarms: %q, want one", got)
		}
		if err := w.reign().AdmitAgent(peer); err != nil {
			t.Errorf("the agent itself: %v", err)
		}
	})
}

func TestS22_AlarmsAreBounded(t *testing.T) {
	var a alarms
	now := time.Unix(1_700_000_000, 0)
	for range 3 * alarmsRemembered {
		id, err := identity.NewID("wrk")
		if err != nil {
			t.Fatal(err)
		}
		if !a.due(alarmKey{id, alarmSuperseded}, now) {
			t.Fatal("an alarm is kept back that was never told")
		}
	}
	if len(a.told) > alarmsRemembered {
		t.Errorf("%d alarms are remembered", len(a.told))
	}
	again := alarmKey{"wrk", alarmNewKey}
	now = now.Add(alarmEvery)
	if !a.due(again, now) || a.due(again, now.Add(alarmEvery-1)) || !a.due(again, now.Add(alarmEvery)) {
		t.Error("one sign is not told once in its time")
	}
	if len(a.told) != 1 {
		t.Errorf("%d alarms are remembered after their time", len(a.told))
	}
}
