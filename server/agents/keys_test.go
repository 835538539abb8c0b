package agents

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

// TestAgentKeysAreStoredOrRefused: those that no file asks for are refused, and so is what is
// no key.
func TestAgentKeysAreStoredOrRefused(t *testing.T) {
	atPostWith(t, filepath.Join(t.TempDir(), "cache.db"), func(t *testing.T, p *post, a *term) {
		a.keyNames = []string{"node", "broken"}
		m := a.registered()
		o := a.greeted(m)
		o.heard()
		a.told()
		o.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{PublicKeys: &nstancev1.PublicKeys{
			RequestId: "1", Keys: []*nstancev1.AgentPublicKey{
				{Filename: "node", PublicKeyPem: publicPEM(t, newKey(t))},
				{Filename: "other", PublicKeyPem: publicPEM(t, newKey(t))},
				{Filename: "broken", PublicKeyPem: []byte("x")},
			},
		}}})
		answer := o.heard()[0].GetKeysStored()
		if answer.GetRequestId() != "1" || !slices.Equal(answer.GetStored(), []string{"node"}) {
			t.Errorf("answer %v, want that node is stored", answer)
		}
		var refused []string
		for _, key := range answer.GetRefused() {
			if key.Code != string(refusal.InvalidArgument) {
				t.Errorf("refused %v", key)
			}
			refused = append(refused, key.Filename)
		}
		if !slices.Equal(refused, []string{"other", "broken"}) {
			t.Errorf("refused %q", refused)
		}
		a.expect("keys", "keys")
		if keys := p.cache.PublicKeys(m.id); len(keys) != 1 {
			t.Errorf("%d keys are noted", len(keys))
		}
		o.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{PublicKeys: &nstancev1.PublicKeys{RequestId: "2"}}})
		a.expect("no keys")
		if answer := o.heard()[0].GetKeysStored(); answer.GetRequestId() != "2" {
			t.Errorf("answer %v", answer)
		}
	})
}

// TestAnAdoptedInstancesCertificateIsLearnt: the first that it comes with, from then on that
// one alone; the record names it once storage takes it.
func TestAnAdoptedInstancesCertificateIsLearnt(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		m := a.registered()
		id, err := p.ids.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		rec := a.record(m.id)
		rec.ID, rec.Certificate, rec.PublicKeyPEM = id, layout.Certificate{}, ""
		if err := a.instances.Create(a.ctx, rec); err != nil {
			t.Fatal(err)
		}
		first := identity.Peer{ID: id, Tenant: "default", Cluster: "test", Shard: testShard, Serial: "7", NotAfter: time.Now().Add(time.Hour), Key: m.peer.Key}
		another := first
		another.Serial = "8"
		failing := true
		p.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && failing {
				failing = false
				return memory.Fault{Before: errors.New("away")}
			}
			return memory.Fault{}
		})
		if err := a.Admit(first); err != nil {
			t.Fatal(err)
		}
		if err := a.Admit(another); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("another certificate: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		p.store.SetFaults(nil)
		if rec := a.record(id); rec.Certificate.Serial != "7" || rec.PublicKeyPEM != string(publicPEM(t, m.key)) {
			t.Errorf("recorded %+v", rec.Certificate)
		}
		a.stop(context.Canceled)
		b := p.lead()
		if err := b.Admit(first); err != nil {
			t.Errorf("to the next leader: %v", err)
		}
		if err := b.Admit(another); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("another certificate, to the next leader: %v", err)
		}
		b.stop(context.Canceled)
	})
}
