package proxmox_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/driver/drivertest/docpage"
)

// page is the provider's page in the documentation, and calls the section of it that
// lists the calls of the API.
const (
	page  = "../../docs/providers/proxmox.md"
	calls = "API calls and privileges"
)

// role are the privileges of the role on the page.
func role(t *testing.T) []string {
	t.Helper()
	return strings.Fields(docpage.Read(t, page, calls).Block("text"))
}

func TestRoleIsWhatTheCallsNeed(t *testing.T) {
	_, needed := docpage.Read(t, page, calls).Calls()
	docpage.Same(t, "privilege", needed, role(t))
}

// The role on the page is the one that the script makes.
func TestRoleIsThatOfTheScript(t *testing.T) {
	docpage.Same(t, "privilege of token.sh", rolePrivileges(t), role(t))
}

// What the page shows as a configuration is one, without a doubt about it; and a nonce lives under it for as long as the page says.
func TestConfigurationsOnThePage(t *testing.T) {
	var nonce time.Duration
	for name, text := range map[string]string{
		"without a cluster": docpage.Read(t, page, "Three machines without a cluster").Heredoc(),
		"with a cluster":    docpage.Read(t, page, "Three machines with a cluster").Block("jsonc"),
	} {
		cfg, err := config.Load("proxmox.md", []byte(text), config.LoadOptions{Shard: "rack-1", Storage: "s3", Rules: rules.New()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v", name, cfg.Warnings)
		} else {
			nonce = cfg.Server.GarbageCollection.RegistrationTimeout.Std() + new(proxmox.Driver).LongestCreate()
		}
	}
	text, err := os.ReadFile(page)
	if want := fmt.Sprintf("for one registration within %v minutes", nonce.Minutes()); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the page does not say that a nonce is good %s: %v", want, err)
	}
}

// What the server looks for when it starts is that role.
func TestMissingPrivilegesAreThoseOfTheRole(t *testing.T) {
	for _, missing := range role(t) {
		all := slices.DeleteFunc(role(t), func(p string) bool { return p == missing })
		if said := checked(t, proxmoxfake.Token{ID: "a@pve!b", Secret: "s", Privileges: all}, "s"); !strings.Contains(said, "missing=["+missing+"]") {
			t.Errorf("without %s: %q", missing, said)
		}
	}
	if said := checked(t, proxmoxfake.Token{ID: "a@pve!b", Secret: "s", Privileges: role(t)}, "s"); said != "" {
		t.Errorf("with the role: %q", said)
	}
}
