package archtest

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// matchDir reports whether dir is the pattern's directory or lies below it, and which
// part of dir the pattern stands for.
func matchDir(pattern, dir string) (tree string, ok bool) {
	want, have := strings.Split(pattern, "/"), strings.Split(dir, "/")
	if len(have) < len(want) {
		return "", false
	}
	for i, element := range want {
		if match, err := path.Match(element, have[i]); err != nil || !match {
			return "", false
		}
	}
	return strings.Join(have[:len(want)], "/"), true
}

// layerOf returns the most particular layer of a directory, and the layer's own tree.
func layerOf(dir string) (best layer, tree string, ok bool) {
	for _, l := range allLayers {
		t, match := matchDir(l.dir, dir)
		if match && (!ok || len(t) > len(tree)) {
			best, tree, ok = l, t, true
		}
	}
	return best, tree, ok
}

// permits reports whether one of the patterns covers a directory.
func permits(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if pattern == "..." {
			return true
		}
		tree, below := strings.CutSuffix(pattern, "/...")
		return dir == tree || below && strings.HasPrefix(dir, tree+"/")
	})
}

// foreign returns the imports of ours that a layer does not allow.
func foreign(imports []string, tree string, allowed ...[]string) []string {
	var wrong []string
	for _, path := range imports {
		dir, ours := strings.CutPrefix(path, modulePrefix)
		if !ours || permits(slices.Concat(allowed...), dir) || permits([]string{tree + "/..."}, dir) {
			continue
		}
		wrong = append(wrong, dir)
	}
	return wrong
}

// banned returns the first of the packages that a ban forbids.
func banned(b ban, deps []string) (string, bool) {
	for _, dep := range deps {
		for _, prefix := range b.imports {
			if dep == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(dep, strings.TrimSuffix(prefix, "/")+"/") {
				return dep, true
			}
		}
	}
	return "", false
}

// impure returns the imports from outside the repository that a decision package may
// not have.
func impure(imports []string) []string {
	return slices.DeleteFunc(slices.Clone(imports), func(path string) bool {
		return strings.HasPrefix(path, modulePrefix) || slices.Contains(pureImports, path)
	})
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		l, tree, ok := layerOf(p.dir())
		if !ok {
			t.Errorf("%s stands in no layer: say in rules.go what it may import", p.dir())
			continue
		}
		allowed := l.ours
		if p.isTestSupport() {
			allowed = slices.Concat(l.ours, l.tests)
		}
		for _, dir := range foreign(p.Imports, tree, allowed) {
			t.Errorf("%s imports %s; it may import %v", p.dir(), dir, allowed)
		}
		for _, dir := range foreign(p.testImports(), tree, l.ours, l.tests) {
			t.Errorf("tests of %s import %s; they may import %v", p.dir(), dir, slices.Concat(l.ours, l.tests))
		}
	}
}

// What two controllers need stands below both: a decision, or a package of its own.
func TestControllersImportNoControllers(t *testing.T) {
	const controllers = "operator/controllers/"
	for _, l := range operatorLayers {
		if !strings.HasPrefix(l.dir, controllers) {
			continue
		}
		for _, dir := range l.ours {
			if strings.HasPrefix(dir, controllers) && !slices.Contains(pureDirs, dir) {
				t.Errorf("%s may import %s: a controller imports no other one", l.dir, dir)
			}
		}
	}
}

func TestBannedModulesAreNotLinked(t *testing.T) {
	for _, p := range packages(t) {
		for _, b := range bans {
			if _, in := matchDir(b.dir, p.dir()); !in {
				continue
			}
			if dep, found := banned(b, p.Deps); found {
				t.Errorf("%s links %s: %s", p.dir(), dep, b.why)
			}
		}
	}
}

// breached returns the imports of a package that are reserved for others.
func breached(r reservation, dir string, imports []string) []string {
	if !permits([]string{r.within + "/..."}, dir) || slices.Contains(r.dirs, dir) {
		return nil
	}
	var wrong []string
	for _, path := range imports {
		if slices.Contains(r.imports, path) {
			wrong = append(wrong, path)
		}
	}
	return wrong
}

func TestReservedImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, r := range reservations {
			for _, path := range breached(r, p.dir(), p.Imports) {
				t.Errorf("%s imports %s: %s", p.dir(), path, r.why)
			}
		}
	}
	r := reservation{imports: []string{"google.golang.org/grpc/codes"}, within: "server", dirs: []string{"server/rpc"}}
	for dir, want := range map[string]int{"server/shard": 1, "server/rpc": 0, "server/rpc/inner": 1, "agent": 0, "serverx": 0} {
		if got := breached(r, dir, []string{"google.golang.org/grpc/codes", "google.golang.org/grpc"}); len(got) != want {
			t.Errorf("%s: %v are breaches, want %d", dir, got, want)
		}
	}
}

func TestDecisionsReachForNothing(t *testing.T) {
	for _, p := range packages(t) {
		for _, dir := range decisionDirs {
			if !p.under(dir) || p.isTestSupport() {
				continue
			}
			for _, path := range impure(p.Imports) {
				t.Errorf("%s imports %s: a decision follows from state and time alone", p.dir(), path)
			}
		}
	}
}

// The rules themselves, on packages that do not exist.
func TestRulesCatchWhatTheyForbid(t *testing.T) {
	ours := func(dirs ...string) []string {
		paths := []string{"fmt", "google.golang.org/grpc"}
		for _, dir := range dirs {
			paths = append(paths, modulePrefix+dir)
		}
		return paths
	}
	for _, tt := range []struct {
		name    string
		dir     string
		imports []string
		want    []string
	}{
		{"the heart may know ids", "server/fleet", ours("protos/identity"), nil},
		{"the heart may not know the wire", "server/fleet", ours("protos/nstance/v1"), []string{"protos/nstance/v1"}},
		{"a lease may store", "server/lease", ours("server/objectstore"), nil},
		{"a lease may not choose the store", "server/lease", ours("server/objectstore/s3"), []string{"server/objectstore/s3"}},
		{"a store may use the contract", "server/objectstore/s3", ours("server/objectstore"), nil},
		{"a provider has packages of its own", "providers/aws/spot", ours("providers/aws", "server/driver"), nil},
		{"a provider knows no other", "providers/aws", ours("providers/local"), []string{"providers/local"}},
		{"a provider knows no shard", "providers/aws/cmd/x", ours("server/serve", "server/shard"), []string{"server/shard"}},
		{"an agent knows no server", "agent/session", ours("protos/nstance/v1", "server/config"), []string{"server/config"}},
		{"a controller knows no other", "operator/controllers/machinepool", ours("operator/controllers/machine"), []string{"operator/controllers/machine"}},
		{"a controller may ask another's decisions", "operator/controllers/shardgroup", ours("operator/controllers/machinepool/planner"), nil},
		{"no product knows the tests' world", "operator/inventory", ours("operator/testworld"), []string{"operator/testworld"}},
		{"nothing below knows the top", "server/shard", ours("server/rpc"), []string{"server/rpc"}},
		{"a prefix is not a directory", "server/lease", ours("server/objectstorex"), []string{"server/objectstorex"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, tree, ok := layerOf(tt.dir)
			if !ok {
				t.Fatalf("%s stands in no layer", tt.dir)
			}
			if got := foreign(tt.imports, tree, l.ours); !slices.Equal(got, tt.want) {
				t.Errorf("foreign imports %v, want %v", got, tt.want)
			}
		})
	}

	if got := impure([]string{"time", "os", "net/http", modulePrefix + "protos/identity", "math/rand/v2"}); !slices.Equal(got, []string{"os", "net/http", "math/rand/v2"}) {
		t.Errorf("impure imports %v", got)
	}
	ec2 := []string{"fmt", "github.com/aws/aws-sdk-go-v2/service/ec2/types"}
	for _, b := range bans {
		if !slices.ContainsFunc(b.imports, func(p string) bool { return strings.HasPrefix(p, "github.com/") }) {
			continue // it is about our own
		}
		if _, found := banned(b, ec2); found == (b.dir == "providers/aws") {
			t.Errorf("ban of %s: EC2 forbidden is %t", b.dir, found)
		}
		if dep, found := banned(b, []string{"fmt", "github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"}); found != slices.Contains(b.imports, "github.com/aws/") {
			t.Errorf("ban of %s: the neighbour %q is forbidden", b.dir, dep)
		}
	}
}
