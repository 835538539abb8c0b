package shard

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/secrets"
)

const twoFiles = `{
	"app.env": {"kind": "env", "template": {"ROLE": "{{ .Vars.role }}", "ID": "{{ .Instance.ID }}"}},
	"token": {"kind": "secret", "source": "token"},
	"node.crt": {"kind": "certificate", "template": "node", "key": {"source": "agent", "name": "node.pub"}},
}`

// supplied runs a test with one machine of a template with files, whose agent is the test.
func supplied(t *testing.T, test func(t *testing.T, w *world, peer identity.Peer)) {
	t.Helper()
	inWorld(t, worldOptions{
		DeadAgents: true, CachePath: t.TempDir() + "/cache.db", Files: twoFiles, Timeout: "10m",
		Certificates: `{"node": {"kind": "client", "cn": "system:node:{{ .Instance.ID }}"}}`,
		Groups:       `{"default": {"web": {"template": "plain", "size": 1, "vars": {"role": "web"}}}}`,
	}, func(t *testing.T, w *world) {
		if err := w.secrets.Put(t.Context(), "token", secrets.Secret("t1"), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Second)
		peer, err := register(w.term(), string(w.vms(web)[0].Request.UserData), newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		test(t, w, peer)
	})
}

// keeper is an agent that keeps the files it is sent.
type keeper struct {
	*opened
	t    *testing.T
	peer identity.Peer

	mu     sync.Mutex
	count  int64
	hash   string
	staged map[string]*nstancev1.FileTransfer
	files  map[string]*nstancev1.FileTransfer
	said   []string
}

func (w *world) keep(peer identity.Peer) *keeper {
	g, _ := w.term().planner.groups.Effective(web)
	k := &keeper{opened: w.open(peer), t: w.t, peer: peer, hash: g.RuntimeHash, staged: map[string]*nstancev1.FileTransfer{}, files: map[string]*nstancev1.FileTransfer{}}
	w.agents.Go(func() {
		for {
			select {
			case <-k.ctx.Done():
				return
			case m := <-k.out:
				k.take(m)
			}
		}
	})
	k.say(hello(peer.ID))
	synctest.Wait()
	return k
}

func (k *keeper) take(m *nstancev1.ServerMessage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch m := m.Message.(type) {
	case *nstancev1.ServerMessage_File:
		k.staged[m.File.Filename] = m.File
		k.said = append(k.said, m.File.Filename)
	case *nstancev1.ServerMessage_Commit:
		for name, f := range k.staged {
			k.files[name] = f
		}
		clear(k.staged)
		k.hash = m.Commit.ConfigHash
		k.said = append(k.said, "commit")
	}
}

// report says what the machine has.
func (k *keeper) report() {
	k.mu.Lock()
	k.count++
	r := report(k.peer.ID, k.count)
	r.GetReport().ConfigHash = k.hash
	r.GetReport().Files = map[string]*nstancev1.FileStatus{}
	for name, f := range k.files {
		sum := sha256.Sum256(f.Content)
		r.GetReport().Files[name] = &nstancev1.FileStatus{
			State: &nstancev1.FileStatus_LastModified{LastModified: timestamppb.New(f.LastModified.AsTime())}, Sha256: sum[:],
		}
	}
	k.mu.Unlock()
	k.say(r)
	synctest.Wait()
}

func (k *keeper) expect(content string, said ...string) {
	k.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if got := string(k.files["app.env"].GetContent()); got != content || !slices.Equal(k.said, said) {
		k.t.Errorf("sent %q, app.env is %q; want %q and %q", k.said, got, said, content)
	}
	k.said = nil
}

func TestFilesAndCertificatesReachTheMachine(t *testing.T) {
	supplied(t, func(t *testing.T, w *world, peer identity.Peer) {
		k := w.keep(peer)
		defer k.cut()
		env := "ID=" + peer.ID.String() + "\nROLE=web\n"
		k.expect("")
		k.report()
		k.expect(env, "app.env", "token", "commit")
		k.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{PublicKeys: &nstancev1.PublicKeys{
			RequestId: "1", Keys: []*nstancev1.AgentPublicKey{{Filename: "node", PublicKeyPem: publicPEM(t, newKey(t))}},
		}}})
		w.settle(time.Second) // the file of the cache takes its time
		k.expect(env, "node.crt", "commit")
		logged := false
		for info, err := range objectstore.ListAll(w.ctx, w.store, "certlog/") {
			if err != nil {
				t.Fatal(err)
			}
			logged = strings.Contains(info.Key, peer.ID.String())
		}
		if !logged {
			t.Error("the certificate is not in the log")
		}
		k.report()
		k.expect(env)
		if files := w.term().planner.cache.Files(peer.ID); len(files) != 3 {
			t.Errorf("rows %+v", files)
		}
	})
}

// An edit of variables by the API does not wait for a report.
func TestAnEditReachesTheMachineAtOnce(t *testing.T) {
	supplied(t, func(t *testing.T, w *world, peer identity.Peer) {
		k := w.keep(peer)
		defer k.cut()
		k.report()
		k.report()
		k.expect("ID="+peer.ID.String()+"\nROLE=web\n", "app.env", "token", "commit")
		_, err := w.term().requests.UpsertGroup(w.ctx, "default", "web", requests.GroupChange{Vars: map[string]string{"role": "db"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.expect("ID="+peer.ID.String()+"\nROLE=db\n", "app.env", "token", "commit")
		g, _ := w.term().planner.groups.Effective(web)
		if k.hash != g.RuntimeHash {
			t.Errorf("hash %s, want %s", k.hash, g.RuntimeHash)
		}
		k.report()
		k.expect("ID=" + peer.ID.String() + "\nROLE=db\n")
	})
}

func TestS14_FilesAreInNoLogEventOrObject(t *testing.T) {
	supplied(t, func(t *testing.T, w *world, peer identity.Peer) {
		const marked = "hunter2-is-not-to-be-seen"
		if err := w.secrets.Put(t.Context(), "other", secrets.Secret(marked), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
		config := w.static
		config.Config = testConfig(t, worldOptions{
			Files:  `{"token": {"kind": "secret", "source": "other"}, "none": {"kind": "secret", "source": "none"}}`,
			Groups: `{"default": {"web": {"template": "plain", "size": 1, "vars": {"role": "web"}}}}`,
		})
		if err := w.shard().Apply(w.ctx, config); err != nil {
			t.Fatal(err)
		}
		k := w.keep(peer)
		defer k.cut()
		k.report()
		if got := string(k.files["token"].GetContent()); got != marked {
			t.Errorf("the secret is %q on the machine", got)
		}
		seen := w.logs.String()
		for _, e := range w.term().planner.cache.Errors("default") {
			seen += e.Error
		}
		for info, err := range objectstore.ListAll(w.ctx, w.store, "") {
			if err != nil {
				t.Fatal(err)
			}
			if o, err := w.store.Get(w.ctx, info.Key); err == nil && !strings.HasPrefix(info.Key, "secret/") {
				seen += string(o.Data)
			}
		}
		if strings.Contains(seen, marked) || !strings.Contains(seen, `secret "none"`) {
			t.Errorf("what can be seen:\n%s", seen)
		}
	})
}
