package render_test

import (
	"slices"
	"testing"

	"nstance.dev/server/config/document"
	"nstance.dev/server/render"
)

func TestImages(t *testing.T) {
	args := map[string]any{
		"ImageId": "{{ .Image.os }}", "Count": 3, "Empty": nil,
		"Disks": []any{map[string]any{"From": `{{ index .Image "data-disk" }}`}, "{{ .Image.os }}"},
	}
	for name, c := range map[string]struct {
		args    map[string]any
		u       document.Userdata
		fetched string
		want    []string
	}{
		"arguments, in the order of their names": {args, document.Userdata{}, "", []string{"data-disk", "os"}},
		"user data after them":                   {args, document.Userdata{Content: "{{ .Image.os }} {{ .Image.tools }}"}, "", []string{"data-disk", "os", "tools"}},
		"user data that was fetched": {nil, document.Userdata{Source: document.SourceURL, Encoding: document.EncodingBase64, Content: "https://{{ .Image.no }}"},
			"e3sgLkltYWdlLm9zIH19", []string{"os"}},
		"nothing": {nil, document.Userdata{}, "", nil},
	} {
		got, err := render.Images(c.args, c.u, []byte(c.fetched))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
	if _, err := render.Images(nil, document.Userdata{Encoding: document.EncodingBase64, Content: "%"}, nil); err == nil {
		t.Error("user data that cannot be decoded is accepted")
	}
	if _, err := render.Images(map[string]any{"a": "{{"}, document.Userdata{}, nil); err == nil {
		t.Error("a template that cannot be parsed is accepted")
	}
}
