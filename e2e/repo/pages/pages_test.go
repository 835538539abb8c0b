package pages_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/repo/pages"
)

func TestBlocks(t *testing.T) {
	source := "# Page\n\n<!-- run by: TestX in e2e/repo/docs -->\n```sh\nmake dev\n```\n\n1. In a list:\n\n   <!-- not run: it costs money -->\n   ```console\n   $ make \\\n     dev\n   done\n   ```\n\n" +
		"Text.\n\n    indented\n\n<!-- a comment -->\n\n```\nbare\n```\n"
	got, err := pages.Blocks("docs/x.md", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	want := []pages.Block{
		{Page: "docs/x.md", Line: 5, Language: "sh", Text: "make dev\n", Mark: pages.Mark{Test: "TestX", Package: "e2e/repo/docs"}},
		{Page: "docs/x.md", Line: 12, Language: "console", Text: "$ make \\\n  dev\ndone\n", Mark: pages.Mark{NotRun: "it costs money"}},
		{Page: "docs/x.md", Line: 19, Text: "indented\n"},
		{Page: "docs/x.md", Line: 24, Text: "bare\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBlocks_marksThatMarkNothing(t *testing.T) {
	for name, source := range map[string]string{
		"no reason":          "<!-- not run: -->\n```sh\nx\n```\n",
		"no directory":       "<!-- run by: TestX -->\n```sh\nx\n```\n",
		"misspelt":           "<!-- not-run: because -->\n```sh\nx\n```\n",
		"above running text": "<!-- not run: because -->\n\nText.\n",
		"at the end":         "Text.\n\n<!-- not run: because -->\n",
	} {
		if _, err := pages.Blocks("x.md", []byte(source)); !errors.Is(err, pages.ErrMark) || !strings.HasPrefix(err.Error(), "x.md:") {
			t.Errorf("%s: error %v, want %v", name, err, pages.ErrMark)
		}
	}
}

// checker asks programs that know `nstance-x go --fast`.
func checker(t *testing.T) *pages.Checker {
	t.Helper()
	c, err := pages.NewChecker(filepath.Join("..", "..", ".."), func(program string, args []string) (string, error) {
		for _, arg := range args {
			if strings.HasPrefix(arg, "--") && arg != "--fast" && arg != "--help" {
				return "", fmt.Errorf("unknown flag: %s", arg)
			}
		}
		if program != "nstance-x" || args[0] != "go" {
			return "Usage:\n  " + program + " [command]\n", nil
		}
		return "Usage:\n  nstance-x go [flags]\n", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	c := checker(t)
	for script, wants := range map[string][]string{
		"nstance-x go --fast | grep x > y":                  nil,
		"x=$(sudo nstance-x go --fats)":                     {"unknown flag: --fats"},
		"bin/nstance-x gone":                                {"gone: there is no such command"},
		"make test dev\nmake e2e-kind KIND_NODE_IMAGE=x -j": nil,
		"make tests":                       {"no target tests"},
		"make test FASTER=1":               {"no variable FASTER"},
		"while":                            {"no script of a shell"},
		"cat x":                            {"ordinary commands alone"},
		"make dev; aws s3 ls":              {"aws: not known here"},
		"make dev; $x":                     {"not known here"},
		"systemctl restart nstance-server": nil,
		"systemctl restart nstance-sever":  {"no such unit"},
		"deploy/proxmox/token.sh --no 5":   {"--no is no flag of it"},
		"deploy/proxmox/tokens.sh":         {"no such file"},

		"curl -s http://127.0.0.1:8990/livez":                  nil,
		"curl https://api.example:8443/v1/shards/a/groups":     nil,
		"curl https://api.example:8443/v1/shards/a/group":      {"no program of ours"},
		"make dev; curl https://cloud.debian.org/images/a.img": {"not known here"},

		"go test ./e2e/repo/pages -run TestCheck": nil,
		"go test ./e2e/repo/pages -run TestChock": {"-run TestChock: there is no such test"},
		"go test ./e2e/repo/paged":                {"./e2e/repo/paged: there is no such directory"},

		"helm install a operator/charts/nstance-operator -n x --create-namespace --values values.yaml --set image.tag=v1": nil,
		"helm install a operator/charts/nstance --set image.tag=v1":                                                       {"no such file"},
		"helm install a operator/charts/nstance-operator --set image.tga=v1":                                              {"tga"},
		"helm install a operator/charts/nstance-operator --sett image.tag=v1":                                             {"unknown flag: --sett"},
		"helm upgrade a":  {"takes 2 arguments"},
		"helm frobnicate": {"not known here"},

		"kubectl -n nstance get nsmp,pods -o wide --watch":                       {},
		"kubectl wait --for=condition=Ready nstancecluster/example --timeout=5m": nil,
		"kubectl get nsmq":                             {"nsmq: there is no such kind"},
		"kubectl gte pods":                             {`unknown command "gte"`},
		"kubectl get pods --wtach":                     {"unknown flag: --wtach"},
		"kubectl apply -f operator/examples/pool.yaml": nil,
		"kubectl apply -f operator/examples/pol.yaml":  {"no such file"},
		`kubectl patch nsmp web --type merge -p '{"spec": {"demand": {"max": 20}}}'`:       nil,
		`kubectl patch nsmp web --type merge -p '{"spec": {"demand": {"maximum": 20}}}'`:   {"NstanceMachinePool has no field spec.demand.maximum"},
		`kubectl patch nsmp web --type merge -p '{"spec": {'`:                              {"unexpected end of JSON"},
		"kubectl apply -f - <<EOF\napiVersion: v1\nkind: Pod\nspec: {nodeNames: a}\nEOF\n": {"nodeNames"},
	} {
		errs := c.Check(pages.Block{Language: "sh", Text: script + "\n"})
		if len(errs) != len(wants) {
			t.Errorf("%s: %v, want %q", script, errs, wants)
			continue
		}
		for _, want := range wants {
			if !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), want) }) {
				t.Errorf("%s: %v, want %q", script, errs, want)
			}
		}
	}
	if errs := c.Check(pages.Block{Language: "console", Text: "$ make \\\n  dev\nmake nothing\n"}); len(errs) > 0 {
		t.Errorf("what is printed is taken for a command: %v", errs)
	}
}

func TestObjects(t *testing.T) {
	c := checker(t)
	pool := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: NstanceMachinePool\nmetadata: {name: web}\nspec: {}\n"
	if err := c.Objects(pages.Block{Language: "yaml", Text: pool}); err != nil {
		t.Error(err)
	}
	bad := strings.Replace(pool, "spec: {}", "spec: {nothing: 1}", 1)
	if err := c.Objects(pages.Block{Language: "yaml", Text: bad}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("error %v", err)
	}
	if err := c.Objects(pages.Block{Language: "yaml", Text: "metrics: {}\n"}); err != nil {
		t.Error(err)
	}
}
