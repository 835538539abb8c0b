package aws_test

import (
	"strings"
	"testing"

	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
)

// A launch template takes the place of what args leave out. With interfaces of its own
// the subnet has to go into an interface too, and the error says how.
func TestCreateByLaunchTemplate(t *testing.T) {
	template := func(name string) map[string]any {
		return map[string]any{"LaunchTemplateName": name, "Version": "$Latest"}
	}
	device := []any{map[string]any{"DeviceIndex": 0}}
	for name, c := range map[string]struct {
		args map[string]any
		want driver.ErrorClass
		says string
	}{
		"an image and groups":                {map[string]any{"LaunchTemplate": template("plain")}, "", ""},
		"interfaces, and one for the subnet": {map[string]any{"LaunchTemplate": template("with-interface"), "NetworkInterfaces": device}, "", ""},
		"interfaces alone": {map[string]any{"LaunchTemplate": template("with-interface")}, driver.Invalid,
			`add "NetworkInterfaces": [{"DeviceIndex": 0}] to args`},
		"there is none":       {map[string]any{"LaunchTemplate": template("other")}, driver.MissingRef, "InvalidLaunchTemplateName.NotFoundException"},
		"no such version":     {map[string]any{"LaunchTemplate": map[string]any{"LaunchTemplateId": "lt-0a11000000000001", "Version": "7"}}, driver.MissingRef, ""},
		"neither id nor name": {map[string]any{"LaunchTemplate": map[string]any{"Version": "1"}}, driver.Invalid, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
				req := request(t)
				req.Args = c.args
				_, err := w.driver(t, "").Create(t.Context(), req)
				wantKind(t, "create", err, c.want)
				if err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("create: %v, want %q", err, c.says)
				}
				if alive := w.alive(); err == nil && (len(alive) != 1 || alive[0].Subnet != machines || alive[0].Image != "ami-0a1100000000000003") {
					t.Errorf("there are %+v", alive)
				}
			})
		})
	}
}
