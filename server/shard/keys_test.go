package shard

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/refusal"
)

func TestAgentKeysAreStoredOrRefused(t *testing.T) {
	opts := worldOptions{DeadAgents: true, CachePath: filepath.Join(t.TempDir(), "cache.db"), Files: `{
		"node.crt": {"kind": "certificate", "template": "node", "key": {"source": "agent", "name": "node"}}
	}`, Certificates: `{"node": {"kind": "client", "cn": "node"}}`}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Second)
		vm := w.vms(web)[0]
		peer, err := register(w.reign(), string(vm.Request.UserData), newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		s := w.open(peer)
		defer s.cut()
		s.say(hello(peer.ID))
		synctest.Wait()
		<-s.out // welcome
		if names := (<-s.out).GetKeyRequest().GetKeyNames(); !slices.Equal(names, []string{"node"}) {
			t.Errorf("keys asked for: %v, want node", names)
		}
		s.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{PublicKeys: &nstancev1.PublicKeys{
			RequestId: "1", Keys: []*nstancev1.AgentPublicKey{
				{Filename: "node", PublicKeyPem: publicPEM(t, newKey(t))},
				{Filename: "other", PublicKeyPem: publicPEM(t, newKey(t))},
			},
		}}})
		answer := (<-s.out).GetKeysStored()
		if answer.GetRequestId() != "1" || !slices.Equal(answer.GetStored(), []string{"node"}) {
			t.Errorf("answer %v, want that node is stored", answer)
		}
		if refused := answer.GetRefused(); len(refused) != 1 || refused[0].Filename != "other" || refused[0].Code != string(refusal.InvalidArgument) {
			t.Errorf("refused %v, want the key that nobody asked for", refused)
		}
	})
}
