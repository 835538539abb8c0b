package gcp_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"nstance.dev/providers/gcp"
	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/driver/drivertest/docpage"
)

// page is the provider's page in the documentation.
const page = "../../docs/providers/gcp.md"

// documentedCalls are the calls that the page lists, and all their permissions.
func documentedCalls(t *testing.T) (calls, permissions []string) {
	t.Helper()
	calls, permissions = docpage.Read(t, page, "API calls and permissions").Calls()
	extra, more := docpage.Read(t, page, optional).Calls()
	return append(calls, extra...), append(permissions, more...)
}

// optional is the section with calls that nothing makes by itself.
const optional = "Optional permissions"

// role are the permissions of the role on the page.
func role(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(docpage.Read(t, page, "Permissions").Block("yaml")) {
		if permission, listed := strings.CutPrefix(line, "  - "); listed {
			all = append(all, strings.TrimSpace(permission))
		}
	}
	return all
}

// optionalPermissions are those that the page names beside the role.
func optionalPermissions(t *testing.T) []string {
	_, permissions := docpage.Read(t, page, optional).Calls()
	return permissions
}

func TestRoleIsWhatTheCallsNeed(t *testing.T) {
	_, needed := docpage.Read(t, page, "API calls and permissions").Calls()
	docpage.Same(t, "permission", needed, role(t))
}

// What the page shows as a configuration is one, without a doubt about it; and a nonce lives under it for as long as the page says.
func TestConfigurationsOnThePage(t *testing.T) {
	var nonce time.Duration
	for name, text := range map[string]string{
		"without an account": docpage.Read(t, page, "Three machines without an account").Heredoc(),
		"with an account":    docpage.Read(t, page, "Three machines with an account").Block("jsonc"),
	} {
		cfg, err := config.Load("gcp.md", []byte(text), config.LoadOptions{Shard: "europe-west1-b", Storage: "gcs", Rules: rules.New()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v", name, cfg.Warnings)
		} else {
			nonce = cfg.Server.GarbageCollection.RegistrationTimeout.Std() + new(gcp.Driver).LongestCreate()
		}
	}
	text, err := os.ReadFile(page)
	if want := fmt.Sprintf("for one registration within %v minutes", nonce.Minutes()); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the page does not say that a nonce is good %s: %v", want, err)
	}
}
