package archtest

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const pageOfConditions = "docs/reference/conditions.md"

// event is a call that publishes an event, up to its reason.
const event = `(?:Eventf\([^,\n]+,\s*[^,\n]+,\s*[^,\n]+,\s*`

// said are the words that the operator puts into conditions and events, by where they stand in its source.
var said = []struct{ files, pattern string }{
	{"operator/api/*/*/*.go", `(?m)^\s*Condition[A-Z]\w* += "([A-Z]\w+)"`},
	{"operator/api/*/*/*.go", `(?m)^\s*Reason[A-Z]\w* += "([A-Z][\w]+:?)"`},
	{"operator/api/*/*/*.go", `(?m)^\s*(?:const )?Event[A-Z]\w* += "([A-Z]\w+)"`},
	{"operator/demand/translate/warning.go", `\bReason = "([A-Z]\w+)"`},
	{"operator/controllers/*/*.go", event + `|PublishEvent\{(?:Reason: )?|PublishNodeEvent\{|(?:normal|warn)\(|\breason\w* += |infrav1\.Condition\w+, )"([A-Z][a-z]\w+)"`},
	{"operator/controllers/*/*.go", `\breport\(\w+, \w+, "([A-Z]\w+)"`},
	{"operator/controllers/*/*/*.go", event + `|Capacity\w+ += |MachineUpcoming += )"([A-Z][a-z]\w+)"`},
	{"operator/controllers/providererror/*.go", `(?m)^\s+"[a-z-]+": +"([A-Z]\w+)",`},
	{"operator/drain/*.go", event + `|PublishEvent\{Reason: )"([A-Z][a-z]\w+)"`},
	{"operator/manager/*.go", `\.(?:normal|warn)\(ctx, "([A-Z]\w+)"`},
	{"operator/manager/identity.go", `return "([A-Z]\w+)"`},
}

// TestPageOfConditionsNamesEveryReason: of each condition, reason and event that the operator writes the page
// says what it means and what to do, and it names none that no object can have.
func TestPageOfConditionsNamesEveryReason(t *testing.T) {
	root, _ := trackedFiles(t)
	actual := map[string]bool{}
	for _, place := range said {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(place.files)))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(found, all(place.pattern, string(data)))
		}
		if len(found) == 0 {
			t.Errorf("nothing in %s is like %s: the test looks for the wrong thing", place.files, place.pattern)
		}
		maps.Copy(actual, found)
	}
	text, err := os.ReadFile(filepath.Join(root, pageOfConditions))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]\\w+:?)`(.*)$").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = true
		if cells := strings.Split(strings.TrimSuffix(row[2], "|"), "|"); slices.ContainsFunc(cells[1:], func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("%s: the row of %s has an empty cell", pageOfConditions, row[1])
		}
	}
	if len(actual) < 200 {
		t.Fatalf("%d conditions, reasons and events found in the source: the test looks for the wrong thing", len(actual))
	}
	for _, name := range slices.Sorted(maps.Keys(actual)) {
		if !documented[name] {
			t.Errorf("%s lacks %s: add a row with its meaning and what to do", pageOfConditions, name)
		}
	}
	source := operatorSource(t)
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("%s names %s, which the operator does not say", pageOfConditions, name)
		}
	}
}

// pairing is a part of the operator in which the source gives conditions reasons by their names.
type pairing struct {
	section string // of the page, with a row for each reason
	api     string // the file with the words
	dirs    map[string]string
	least   int // pairs
}

// pairings say where the conditions of each API get their reasons, and of which kind they are: by the directory, or where a
// directory has several kinds, by the conditions that another kind has.
var pairings = []pairing{
	{
		section: "Reasons", api: "operator/api/infrastructure/v1beta1/conditions.go", least: 90,
		dirs: map[string]string{
			"operator/controllers/machine": "NstanceMachine", "operator/controllers/node": "NstanceMachine", "operator/drain": "NstanceMachine",
			"operator/controllers/shardgroup": "NstanceShardGroup", "operator/controllers/machinepool": "NstanceMachinePool",
			"operator/controllers/machinetemplate": "NstanceMachineTemplate", "operator/controllers/cluster": "NstanceCluster", "operator/controllers/importer": "NstanceCluster",
		},
	},
	{
		section: "Host machines: reasons", api: "operator/api/hosts/v1alpha1/conditions.go", least: 35,
		dirs: map[string]string{
			"operator/hosts/lifecycle": "HostMachine", "operator/controllers/hosts/inventory": "HostMachine",
			"operator/controllers/hosts/selection": "HostMachine", "operator/controllers/hosts/versions": "MachineConfiguration",
		},
	},
}

// otherKinds are the conditions that another kind has than the one whose directory writes them.
var otherKinds = map[string]string{
	"ConditionAvailable": "NstanceControlPlane", "ConditionSelectorValid": "MachineConfiguration",
	"ConditionHealthy": "MachineConfigurationVersion", "ConditionLocked": "MachineConfigurationVersion",
}

// TestPageOfConditionsSaysWhichConditionHasAReason: where the source gives a condition a reason by their names, the row of
// the reason names the condition, with its kind.
func TestPageOfConditionsSaysWhichConditionHasAReason(t *testing.T) {
	root, paths := trackedFiles(t)
	text, err := os.ReadFile(filepath.Join(root, pageOfConditions))
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`status\.(?:True|False|Unknown)\(\s*(?:\w+v1\.)?(\w+),\s*\w+v1\.(Reason\w+)`)
	local := regexp.MustCompile(`const (\w+) = \w+v1\.(Condition\w+)`)
	for _, p := range pairings {
		_, section, _ := strings.Cut(string(text), "\n## "+p.section+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		rows := map[string]string{}
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+:?)`[^|]*\\|([^|]*)\\|").FindAllStringSubmatch(section, -1) {
			rows[row[1]] = row[2]
		}
		words, pairs := wordsOfTheAPI(t, p.api), 0
		for _, name := range paths {
			kind := p.dirs[filepath.Dir(name)]
			if kind == "" || strings.HasSuffix(name, "_test.go") {
				continue
			}
			data, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			for function := range strings.SplitSeq(string(data), "\nfunc ") {
				consts := map[string]string{}
				for _, c := range local.FindAllStringSubmatch(function, -1) {
					consts[c[1]] = c[2]
				}
				for _, found := range said.FindAllStringSubmatch(function, -1) {
					condition, reason := cmp.Or(consts[found[1]], found[1]), words[found[2]]
					if words[condition] == "" {
						continue // a loop over several, or a parameter
					}
					pairs++
					if of := cmp.Or(otherKinds[condition], kind); !namesCondition(rows[reason], of, words[condition]) {
						t.Errorf("%s: the row of reason %s does not say that condition %s of %s has it", pageOfConditions, reason, words[condition], of)
					}
				}
			}
		}
		if pairs < p.least {
			t.Errorf("%s: %d conditions with a reason found in the source: the test looks for the wrong thing", p.section, pairs)
		}
	}
}

// namesCondition reports whether a cell as "Kind: `A`, `B`; Kind: `C`" names a condition of a kind.
func namesCondition(cell, kind, condition string) bool {
	for part := range strings.SplitSeq(cell, ";") {
		of, conditions, _ := strings.Cut(strings.TrimSpace(part), ": ")
		if of == kind && strings.Contains(conditions, "`"+condition+"`") {
			return true
		}
	}
	return false
}

// wordsOfTheAPI are the conditions and reasons of a file of the operator's API, by the names of their constants.
func wordsOfTheAPI(t *testing.T, name string) map[string]string {
	t.Helper()
	root, _ := trackedFiles(t)
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, c := range regexp.MustCompile(`(?m)^\s*((?:Condition|Reason)[A-Z]\w*) += "([A-Z]\w+:?)"`).FindAllStringSubmatch(string(data), -1) {
		words[c[1]] = c[2]
	}
	return words
}

// operatorSource is the operator's code, tests left out.
func operatorSource(t *testing.T) string {
	t.Helper()
	root, paths := trackedFiles(t)
	var all strings.Builder
	for _, p := range paths {
		if !strings.HasPrefix(p, "operator/") || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, p))
		if err == nil { // else deleted, and not committed yet
			all.Write(data)
		}
	}
	return all.String()
}
