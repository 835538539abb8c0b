package demandmode_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"nstance.dev/operator/config"
	"nstance.dev/operator/demandmode"
	"nstance.dev/operator/testworld"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// A machine gets a token that stands in the cluster; before there is one, and where none can be made,
// the shard is told why.
func TestMachinesJoinWithTheTokenOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "bootstrap.tmpl")
		if err := os.WriteFile(file, []byte("#!/bin/sh\n{{.ClusterID}} {{.Tenant}} {{bootstrapToken}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := config.Settings{Demand: config.Demand{Enabled: true, Bootstrap: config.DemandBootstrap{TemplateFile: file, JoinTokenLife: 30 * time.Minute}}}
		c := config.Config{ClusterID: "example", Tenant: "red"}
		registry, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
		j, err := demandmode.NewJoining(s, c, registry, log)
		if err != nil {
			t.Fatal(err)
		}
		ask := func() *demandpb.BootstrapBlobResponse {
			return j.Render(t.Context(), "a", &demandpb.BootstrapRequest{RequestId: "r", MachineId: "m"})
		}
		if got := ask(); !strings.Contains(got.GetError(), "makes no join tokens") {
			t.Errorf("without a keeper: %v", got)
		}
		var away atomic.Bool
		away.Store(true)
		api := testworld.NewClientBuilder(t).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if away.Load() {
					return errors.New("the API server is away")
				}
				return api.Create(ctx, o, opts...)
			},
		}).Build()
		var failures atomic.Int32
		keeper := j.Keep(s, c, api, func(error) { failures.Add(1) }, log)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- keeper.Start(ctx) }()
		synctest.Wait()
		if got := ask(); !strings.Contains(got.GetError(), "no join token has been made yet") || failures.Load() != 1 {
			t.Errorf("while none can be made, after %d failures: %v", failures.Load(), got)
		}
		away.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := ask(); !strings.HasPrefix(string(got.GetUserData()), "#!/bin/sh\nexample red ") || got.GetTtlSeconds() != 600 {
			t.Errorf("with a token: %v", got)
		}
		want := `
# HELP nstance_demand_operator_bootstrap_blobs_total Requests for what makes a machine join that were answered, by whether the template could be rendered.
# TYPE nstance_demand_operator_bootstrap_blobs_total counter
nstance_demand_operator_bootstrap_blobs_total{result="failed"} 2
nstance_demand_operator_bootstrap_blobs_total{result="rendered"} 1
# HELP nstance_demand_operator_join_token_failures_total Join tokens that could not be made; each is tried again.
# TYPE nstance_demand_operator_join_token_failures_total counter
nstance_demand_operator_join_token_failures_total 1
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "nstance_demand_operator_bootstrap_blobs_total", "nstance_demand_operator_join_token_failures_total"); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
}

// A process whose template cannot be used does not start; one without demand mode reads none.
func TestATemplateThatCannotBeUsed(t *testing.T) {
	s := config.Settings{Demand: config.Demand{Enabled: true, Bootstrap: config.DemandBootstrap{TemplateFile: filepath.Join(t.TempDir(), "absent")}}}
	if _, err := demandmode.NewJoining(s, config.Config{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it starts without the file")
	}
	s.Demand.Enabled = false
	if j, err := demandmode.NewJoining(s, config.Config{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)); j != nil || err != nil {
		t.Errorf("without demand mode: %v, %v", j, err)
	}
}
