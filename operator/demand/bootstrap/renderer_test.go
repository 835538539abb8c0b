package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mark stands in everything that is secret.
const mark = "Zf9mark"

func request() *demandpb.BootstrapRequest {
	return &demandpb.BootstrapRequest{
		RequestId: "0f", MachineId: "wrk-1", InstanceType: "m7i.large", Zone: "us-west-2a", CapacityType: "on-demand",
		Requirements:  []*demandpb.NodeSelectorRequirement{{Key: "kubernetes.io/arch", Operator: demandpb.Operator_OPERATOR_NOT_IN, Values: []string{"arm64"}}},
		NodeLabels:    map[string]string{"nstance.dev/instance-id": "wrk-1"},
		Taints:        []*demandpb.Taint{{Key: "dedicated", Value: "gpu", Effect: demandpb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE}},
		StartupTaints: []*demandpb.Taint{{Key: "cni", Effect: demandpb.TaintEffect_TAINT_EFFECT_NO_EXECUTE}},
		Vars:          map[string]string{"password": mark},
	}
}

// world is a renderer over a file that a test changes.
type world struct {
	*Renderer
	t     *testing.T
	dir   string
	log   *bytes.Buffer
	until time.Time // of the token; zero: there is none
	mu    sync.Mutex
	heard []string
}

func newWorld(t *testing.T, text string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), log: &bytes.Buffer{}, until: time.Now().Add(30 * time.Minute)}
	w.write("secret", mark)
	w.write("bootstrap.tmpl", text)
	r, err := New(Options{
		File: filepath.Join(w.dir, "bootstrap.tmpl"), ClusterID: "example", Tenant: "red", Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Token: func() (string, time.Time, error) {
			if w.until.IsZero() {
				return "", time.Time{}, errors.New("no join token yet")
			}
			return "abcdef." + mark, w.until, nil
		},
		Observer: Observer{
			Rendered: func(ok bool) { w.hear("rendered", ok) },
			Reloaded: func(ok bool) { w.hear("reloaded", ok) },
			Rejected: func(yes bool) { w.hear("rejected", yes) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Renderer = r
	return w
}

func (w *world) hear(what string, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !is {
		what = "not " + what
	}
	w.heard = append(w.heard, what)
}

// take returns what was heard since the last call.
func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard := w.heard
	w.heard = nil
	return heard
}

func (w *world) write(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) render() *demandpb.BootstrapBlobResponse {
	return w.Render(w.t.Context(), "us-west-2a", request())
}

func TestRenderAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		left       time.Duration // of the token; 0: there is none
		want       *demandpb.BootstrapBlobResponse
	}{
		{"without a token a blob is good for ten minutes", "#!/bin/sh\n# {{.Tenant}}", 0, &demandpb.BootstrapBlobResponse{UserData: []byte("#!/bin/sh\n# red"), TtlSeconds: 600}},
		{"a token that lives longer", "{{bootstrapToken}}", 20 * time.Minute, &demandpb.BootstrapBlobResponse{UserData: []byte("abcdef." + mark), TtlSeconds: 600}},
		{"a token that ends before", "{{bootstrapToken}}", 90*time.Second + time.Millisecond, &demandpb.BootstrapBlobResponse{UserData: []byte("abcdef." + mark), TtlSeconds: 90}},
		{"a token that ends, where this machine needs none", "{{if eq .Tenant `blue`}}{{bootstrapToken}}{{end}}x", 90 * time.Second, &demandpb.BootstrapBlobResponse{UserData: []byte("x"), TtlSeconds: 600}},
		{"a token that has expired", "{{bootstrapToken}}", -time.Second, &demandpb.BootstrapBlobResponse{
			Error: `execute template: template: bootstrap.tmpl:1:2: executing "bootstrap.tmpl" at <bootstrapToken>: error calling bootstrapToken: the join token has expired`,
		}},
		{"no token yet", "{{bootstrapToken}}", 0, &demandpb.BootstrapBlobResponse{
			Error: `execute template: template: bootstrap.tmpl:1:2: executing "bootstrap.tmpl" at <bootstrapToken>: error calling bootstrapToken: no join token yet`,
		}},
		{"words of Kubernetes", "{{range .Requirements}}{{.Operator}}{{end}} {{.TaintFlag}}", 0, &demandpb.BootstrapBlobResponse{
			UserData: []byte("NotIn cni=:NoExecute,dedicated=gpu:NoSchedule"), TtlSeconds: 600,
		}},
		{"an error on several lines", "{{template `a\nb`}}{{define `a\nb`}}{{.Zone.X}}{{end}}", 0, &demandpb.BootstrapBlobResponse{
			Error: `execute template: template: bootstrap.tmpl:3:11: executing "a\nb" at <.Zone.X>: nil data; no entry for key "Zone"`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tt.text)
				w.until = time.Time{}
				if tt.left != 0 {
					w.until = time.Now().Add(tt.left)
				}
				tt.want.RequestId = "0f"
				if diff := cmp.Diff(tt.want, w.render(), protocmp.Transform()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				said := "bootstrap blob rendered"
				if tt.want.GetError() != "" {
					said = "bootstrap blob not rendered"
				}
				if !strings.Contains(w.log.String(), said) || !strings.Contains(w.log.String(), "machine=wrk-1") {
					t.Errorf("the log says %s", w.log)
				}
			})
		})
	}
}

// Labels that no Node can have never reach a script.
func TestRenderRefusesLabelsThatNeedQuotes(t *testing.T) {
	w := newWorld(t, "{{.LabelFlag}}")
	r := request()
	r.NodeLabels["a"] = "b'; reboot"
	if got := w.Render(t.Context(), "a", r); got.GetError() == "" || got.GetUserData() != nil {
		t.Errorf("Render() = %v", got)
	}
	r = request()
	r.Taints[0].Effect = demandpb.TaintEffect_TAINT_EFFECT_UNSPECIFIED
	if got := w.Render(t.Context(), "a", r); got.GetError() == "" || got.GetUserData() != nil {
		t.Errorf("Render() = %v", got)
	}
}

// S14: neither what is rendered nor what it is made of stands in a log or an error, whatever
// goes wrong.
func TestS14_NothingSecretIsTold(t *testing.T) {
	for _, text := range []string{
		"{{.Vars.password}}{{bootstrapToken}}{{file `secret`}}",
		"{{file .Vars.password}}", "{{indent -1 .Vars.password}}", "{{join `,` .Vars.password}}", "{{.Vars.password.X}}", "{{index .Vars.password `x`}}",
		"{{slice .Vars.password 99}}", "{{call .Vars.password}}", "{{eq 1 .Vars.password}}", "{{index .Taints .Vars.password}}", "{{indent .Vars.password 1}}",
		"{{template `x` .Vars.password}}{{define `x`}}{{.Y}}{{end}}", "{{range .Vars.password}}{{.X}}{{end}}", "{{with bootstrapToken}}{{.X}}{{end}}",
		"{{with file `secret`}}{{index . `x`}}{{end}}", "{{index .Vars bootstrapToken}}{{.Vars.password}}{{.Missing}}", "{{lt .Vars.password 1}}", "{{and .Vars.password (index .Taints 9)}}",
		"{{quote (printf `%s\\x00` .Vars.password)}}", "{{toJson .Vars.password.X}}", "{{(index .Vars .Vars.password).X}}",
	} {
		w := newWorld(t, text)
		answer := w.render()
		if strings.Contains(w.log.String(), mark) || strings.Contains(answer.GetError(), mark) {
			t.Errorf("%s: the error is %q, and the log\n%s", text, answer.GetError(), w.log)
		}
		if w.log.Len() == 0 {
			t.Errorf("%s: the log is empty", text)
		}
	}
	w := newWorld(t, "{{.Vars.password}}{{bootstrapToken}}{{file `secret`}}")
	if got := string(w.render().GetUserData()); got != mark+"abcdef."+mark+mark {
		t.Errorf("the blob is %q: the marks prove nothing", got)
	}
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "one")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		next := func() {
			time.Sleep(5*time.Second + time.Millisecond)
			synctest.Wait()
		}
		expect := func(step, blob string, heard ...string) {
			t.Helper()
			if got := string(w.render().GetUserData()); got != blob {
				t.Errorf("%s: rendered is %q, want %q", step, got, blob)
			}
			if diff := cmp.Diff(append(heard, "rendered"), w.take()); diff != "" {
				t.Errorf("%s: heard is -want +got:\n%s", step, diff)
			}
		}
		expect("at first", "one", "not rejected")
		next()
		expect("nothing changes", "one")
		w.write("bootstrap.tmpl", "two {{bootstrapToken}}")
		next()
		expect("a change", "two abcdef."+mark, "reloaded", "not rejected")
		if !w.UsesToken() {
			t.Error("the new template uses tokens")
		}
		w.write("bootstrap.tmpl", "{{broken")
		next()
		next()
		expect("a mistake, said once", "two abcdef."+mark, "not reloaded", "rejected")
		if err := os.Remove(filepath.Join(w.dir, "bootstrap.tmpl")); err != nil {
			t.Fatal(err)
		}
		next()
		expect("another mistake", "two abcdef."+mark, "not reloaded", "rejected")
		w.write("bootstrap.tmpl", "two {{bootstrapToken}}")
		next()
		expect("what was before", "two abcdef."+mark, "reloaded", "not rejected")
		if got := strings.Count(w.log.String(), "bootstrap template refused: the one before remains in force"); got != 2 {
			t.Errorf("%d refusals are logged:\n%s", got, w.log)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}

func TestATemplateThatCannotBeUsedIsAFailureAtTheStart(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.tmpl")
	if err := os.WriteFile(bad, []byte("{{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{bad, filepath.Join(dir, "absent.tmpl")} {
		if _, err := New(Options{File: file, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: New() = %v", file, err)
		}
	}
}

// Without a template machines get a stub, and it is said each time.
func TestStub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r, err := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		answer := r.Render(t.Context(), "a", request())
		if !strings.HasPrefix(string(answer.GetUserData()), "#cloud-config\n#") || answer.GetTtlSeconds() != 600 || r.UsesToken() {
			t.Errorf("Render() = %v", answer)
		}
		if strings.Count(log.String(), "level=WARN") != 2 {
			t.Errorf("the log says %s", log.String())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}
