package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/server/serve"
)

// settings are a configuration's in which nothing is wrong.
func settings() serve.Settings {
	return serve.Settings{Zone: "europe-west1-b", Log: slog.New(slog.DiscardHandler), Options: map[string]any{}}
}

// What is missing is said before anything leads, and the program ends.
func TestNewDriverSaysWhatIsMissing(t *testing.T) {
	userCredentials := filepath.Join(t.TempDir(), "credentials.json")
	text := `{"type": "authorized_user", "client_id": "x", "client_secret": "x", "refresh_token": "x"}`
	if err := os.WriteFile(userCredentials, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		credentials string
		change      func(*serve.Settings)
		say         []string
	}{
		"credentials":             {"/nowhere/credentials.json", func(*serve.Settings) {}, []string{"no credentials", "GOOGLE_APPLICATION_CREDENTIALS"}},
		"project":                 {userCredentials, func(*serve.Settings) {}, []string{"project: missing", "server.provider.options.project", "GOOGLE_CLOUD_PROJECT"}},
		"zone":                    {userCredentials, func(s *serve.Settings) { s.Zone = "" }, []string{"zone: missing", "server.provider.zone"}},
		"an option that is none":  {userCredentials, func(s *serve.Settings) { s.Options["projekt"] = "x" }, []string{"projekt: unknown option"}},
		"an address that is none": {userCredentials, func(s *serve.Settings) { s.LeaderNetwork = &serve.LeaderNetwork{IP: "here"} }, []string{"leader_network.ip"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", tt.credentials)
			t.Setenv("GOOGLE_CLOUD_PROJECT", "")
			s := settings()
			tt.change(&s)
			_, err := newDriver(t.Context(), s)
			for _, say := range tt.say {
				if err == nil || !strings.Contains(err.Error(), say) {
					t.Errorf("%v does not say %q", err, say)
				}
			}
		})
	}
}
