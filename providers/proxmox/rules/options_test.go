package rules

import (
	"encoding/json"
	"testing"
)

func TestParseOptions(t *testing.T) {
	got, err := ParseOptions(map[string]any{
		"insecure_tls": true, "ca_file": "/etc/ca.pem", "cloud_init_iso_storage": "cephfs", "provider_uri": "ccm",
	})
	want := Options{InsecureTLS: true, CAFile: "/etc/ca.pem", ISOStorage: "cephfs", ProviderURI: "ccm"}
	if err != nil || got.InsecureTLS != want.InsecureTLS || got.CAFile != want.CAFile || got.ISOStorage != want.ISOStorage || got.ProviderURI != want.ProviderURI {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for key, value := range map[string]any{
		"insecure_tls": "yes", "ca_file": 1, "fingerprints": "AB:CD", "placement_memory": "all", "parallel_clones": json.Number("17"), "cloud_init_iso_storage": "a b", "provider_uri": "aws", "endpoint": "https://pve",
	} {
		if err := New().CheckOption(key, value); err == nil {
			t.Errorf("%s = %v is taken", key, value)
		}
	}
}
