package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// actAs is the one permission that is not in the role: the module cluster grants it,
// for the service account of machines alone.
const actAs = "iam.serviceAccounts.actAs"

// TestServersOfGoogleMayDoWhatTheyNeed compares the role that the modules make with the
// one on the page of Google Compute Engine.
func TestServersOfGoogleMayDoWhatTheyNeed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "providers", "gcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\nincludedPermissions:\n")
	section, _, _ = strings.Cut(section, "```")
	var want []string
	for _, line := range regexp.MustCompile(`(?m)^  - (\S+)$`).FindAllStringSubmatch(section, -1) {
		if line[1] != actAs {
			want = append(want, line[1])
		}
	}
	slices.Sort(want)
	if got := granted(t, false); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the modules grant %q, the page says %q", got, want)
	}
	_, section, _ = strings.Cut(string(page), "\n## Optional permissions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, name := range regexp.MustCompile("`(compute\\.instances\\.\\w+)`").FindAllStringSubmatch(section, -1) {
		want = append(want, name[1])
	}
	slices.Sort(want)
	if got := granted(t, true); !slices.Equal(got, want) {
		t.Errorf("with all that is optional the modules grant %q, the page says %q", got, want)
	}
}

// granted are the permissions of the role that the module account makes.
func granted(t *testing.T, optional bool) (all []string) {
	t.Helper()
	m, err := readModule(filepath.Join(terraform, "gcp", "account"))
	if err != nil {
		t.Fatal(err)
	}
	vars, err := m.takeVariables(map[string]cty.Value{"project": cty.StringVal("my-project-1"), "power": cty.BoolVal(optional), "machine_output": cty.BoolVal(optional)})
	if err != nil {
		t.Fatal(err)
	}
	e := &evaluation{m, cty.ObjectVal(vars), map[string]cty.Value{}}
	if err := e.items(); err != nil {
		t.Fatal(err)
	}
	role := m.items["google_project_iam_custom_role.server"]
	list, err := e.value(role.block.Body.Attributes["permissions"].Expr, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list.AsValueSlice() {
		all = append(all, v.AsString())
	}
	return all
}
