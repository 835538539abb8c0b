package shardclient_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/shardclient/shardtest"
)

func TestLoadIdentity(t *testing.T) {
	dir := shardtest.NewCluster(t).Identity(t, "red")
	later := time.Now().AddDate(2, 0, 0)
	for name, test := range map[string]struct {
		cluster, tenant string
		now             time.Time
		want            string // in the error; empty: none
	}{
		"whatever it is":  {"", "", time.Now(), ""},
		"as expected":     {shardtest.ID, "red", time.Now(), ""},
		"another cluster": {"prod", "red", time.Now(), `of cluster "test"`},
		"another tenant":  {"", "blue", time.Now(), `of tenant "red"`},
		"ended":           {"", "", later, "has ended on"},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := shardclient.LoadIdentity(dir, test.cluster, test.tenant, test.now)
			if test.want == "" {
				if err != nil || id.Peer.Tenant != "red" {
					t.Errorf("identity is %+v, error %v", id, err)
				}
				return
			}
			if !errors.Is(err, shardclient.ErrIdentity) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error is %v, want one that names the folder and says %q", err, test.want)
			}
		})
	}
}

func TestLoadIdentityNamesTheFileThatIsMissing(t *testing.T) {
	for _, name := range []string{shardclient.CAFile, shardclient.CertFile, shardclient.KeyFile} {
		dir := shardtest.NewCluster(t).Identity(t, "red")
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, err := shardclient.LoadIdentity(dir, "", "", time.Now())
		if !errors.Is(err, shardclient.ErrIdentity) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s the error is %v", name, err)
		}
	}
}
