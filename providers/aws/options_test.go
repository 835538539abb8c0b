package aws

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	got, err := ParseOptions(object(t, `{"profile": "prod", "prices": {"t4g.small": 0.0168, "m7g.large": "0.08"}}`))
	want := Options{Profile: "prod", Prices: map[string]float64{"t4g.small": 0.0168, "m7g.large": 0.08}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("options: %+v, %v", got, err)
	}
	for _, c := range []struct{ options, want string }{
		{`{"profile": ""}`, "profile: is , must be the name of a profile"},
		{`{"region": "us-east-1"}`, `region: unknown option; the provider aws has "other_zones", "prices" and "profile"`},
		{`{"prices": 3}`, "prices: is 3, must be an object"},
		{`{"prices": {"t4g.small": -1}}`, "prices: t4g.small: is -1, must be the price of an hour in USD"},
		{`{"prices": {"t4g.small": "NaN"}}`, "t4g.small: is NaN"},
	} {
		if _, err := ParseOptions(object(t, c.options)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.options, err, c.want)
		}
	}
}

func TestHalfALeaderNetwork(t *testing.T) {
	if _, err := New(t.Context(), Options{LeaderIP: "10.0.0.1"}); err == nil || !strings.Contains(err.Error(), "needs both ip and interface_id") {
		t.Errorf("New: %v", err)
	}
}

// A server that cannot sign in says what is missing before it leads.
func TestNewSaysWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		opts Options
		want string
	}{
		"no region":      {map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, Options{}, "region: missing; set server.provider.region"},
		"no credentials": {nil, Options{Region: "us-east-1"}, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
		"no profile":     {nil, Options{Region: "us-east-1", Profile: "none"}, "failed to get shared config profile, none"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE",
				"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
				t.Setenv(variable, c.env[variable])
			}
			t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/config")
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/credentials")
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			if _, err := New(t.Context(), c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New: %v, want %q", err, c.want)
			}
		})
	}
}

// object reads options as the server does: numbers keep their digits.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}
