package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/admin/cli"
)

// demandFiles are what the commands read, in a directory of the test.
func demandFiles(t *testing.T) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"shard.jsonc": `{
  "server": { "cluster_id": "c", "shard": "s1", "provider": { "kind": "aws", "zone": "us-east-1a", "region": "us-east-1" }, "subnet_pools": { "p": ["subnet-1"] } },
  "templates": { "t": { "kind": "knc", "arch": "amd64", "instance_type": ["t3.large", "m5.4xlarge"], "subnet_pool": "p", "args": { "ImageId": "ami-1" } } },
  "groups": { "default": { "g": {
    "template": "t", "mode": "demand", "demand": { "min": 1, "max": 40, "capacity_types": ["on-demand", "spot"], "reservations": [ { "id": "cr-1", "instance_type": "m5.4xlarge", "count": 1 } ],
      "consolidation": { "enabled": true } }
  } } }
}`,
		"groups.jsonc": `{ "v": 1, "term": 1, "groups": { "default": { "late": { "template": "t", "mode": "demand", "instance_requirements": { "families_in": ["t3"] } } } } }`,
		"types.yaml": `- {name: t3.large, arch: amd64, vcpu: 2, memory_mib: 8192, hourly_usd: 0.10, spot_usd: 0.031, max_pods: 35}
- {name: m5.4xlarge, arch: amd64, vcpu: 16, memory_mib: 65536, hourly_usd: 0.76}
`,
		"needs.yaml": `clusters:
  default:
    needs:
    - {name: web, pods: 10, requests: {cpu: 1500m, memory: 4Gi}, requirements: [{key: nstance.dev/capacity-type, operator: NotIn, values: [spot]}], priority: 5}
    - {pods: 30, requests: {cpu: 500m, memory: 1Gi}, interruption_penalty: 0.5}
    - {name: gpu, pods: 1, requests: {nvidia.com/gpu: 1}}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, []string{"--config", filepath.Join(dir, "shard.jsonc"), "--types", filepath.Join(dir, "types.yaml"), "--groups", filepath.Join(dir, "groups.jsonc")}
}

func TestDemandCommandsInEveryFormat(t *testing.T) {
	dir, files := demandFiles(t)
	for name, c := range map[string]struct{ args, formats []string }{
		"demand-offers":   {[]string{"demand", "offers"}, []string{"table", "json", "yaml", "name"}},
		"demand-simulate": {[]string{"demand", "simulate", filepath.Join(dir, "needs.yaml")}, []string{"table", "json", "yaml"}},
	} {
		for _, format := range c.formats {
			t.Run(name+"/"+format, func(t *testing.T) {
				golden(t, name+"."+format, newConsole(t).ok(t, slices.Concat(c.args, files, []string{"-o", format})...))
			})
		}
	}
}

func TestDemandCommandsSayWhatIsNotOffered(t *testing.T) {
	_, files := demandFiles(t)
	c := newConsole(t)
	c.ok(t, slices.Concat([]string{"demand", "offers"}, files)...)
	if want := "warning: group default/g: m5.4xlarge has no price for spot capacity: add one to server.demand.prices"; !strings.Contains(c.err.String(), want) {
		t.Errorf("errors are %q, want %q", c.err.String(), want)
	}
	c = newConsole(t)
	c.ok(t, "demand", "offers", "--config", files[1])
	if want := "hint: no server is asked"; !strings.Contains(c.err.String(), want) {
		t.Errorf("without types errors are %q, want %q", c.err.String(), want)
	}
	if want := "the size of m5.4xlarge, t3.large is not known"; !strings.Contains(c.err.String(), want) {
		t.Errorf("without types errors are %q, want %q", c.err.String(), want)
	}
}

func TestDemandCommandsRefuse(t *testing.T) {
	dir, files := demandFiles(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	simulate := func(needs string) []string { return slices.Concat([]string{"demand", "simulate", needs}, files) }
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no configuration":         {[]string{"demand", "offers"}, cli.ExitUsage, `"config" not set`},
		"a file that is not there": {simulate(filepath.Join(dir, "none.yaml")), cli.ExitFailed, "none.yaml"},
		"a field that is not one":  {simulate(write("field.yaml", "clusters: {default: {needs: [{podz: 1}]}}")), cli.ExitFailed, "podz"},
		"nothing at all":           {simulate(write("nothing.yaml", "{}")), cli.ExitFailed, "clusters: none"},
		"another tenant":           {simulate(write("tenant.yaml", "clusters: {b: {needs: []}}")), cli.ExitFailed, "clusters.b: there is no such tenant"},
		"a configuration that is invalid": {
			[]string{"demand", "offers", "--config", write("bad.jsonc", `{"server": {}}`)}, cli.ExitFailed, "server.cluster_id: required",
		},
		"types that are none": {
			[]string{"demand", "offers", "--config", files[1], "--types", write("types.json", `[{"vcpu": 1}]`)}, cli.ExitFailed, "types.json: instance type 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newConsole(t).fails(t, c.code, c.args...); !strings.Contains(got, c.want) {
				t.Errorf("errors are %q, want %q", got, c.want)
			}
		})
	}
}

func TestSimulationInJSONHasWhatScriptsUse(t *testing.T) {
	dir, files := demandFiles(t)
	var plan struct {
		Purchases []struct {
			Machines   int     `json:"machines"`
			HourlyCost float64 `json:"hourly_cost"`
		} `json:"purchases"`
		Shortfalls []struct{ Reason string } `json:"shortfalls"`
		HourlyCost float64                   `json:"hourly_cost"`
	}
	if err := json.Unmarshal([]byte(newConsole(t).ok(t, slices.Concat([]string{"demand", "simulate", filepath.Join(dir, "needs.yaml"), "-o", "json"}, files)...)), &plan); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, p := range plan.Purchases {
		sum += p.HourlyCost
	}
	if len(plan.Purchases) == 0 || len(plan.Shortfalls) != 1 || sum-plan.HourlyCost > 1e-9 || plan.HourlyCost-sum > 1e-9 {
		t.Errorf("%+v", plan)
	}
}
