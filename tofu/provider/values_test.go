package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// A list, map or object whose values come from other resources is no mistake of the configuration: they are not known before an apply.
func TestValuesThatAreNotKnownYet(t *testing.T) {
	text := func(v any) tftypes.Value { return tftypes.NewValue(tftypes.String, v) }
	texts := tftypes.Map{ElementType: tftypes.String}
	list := tftypes.List{ElementType: tftypes.String}
	later := tftypes.UnknownValue
	got, err := groupRequest(object{
		"key": text("web"), "template": text("small"), "instance_type": text(later),
		"args":           tftypes.NewValue(texts, object{"known": text("a"), "later": text(later)}),
		"load_balancers": tftypes.NewValue(list, []tftypes.Value{text("lb"), text(later)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: proto.String("small")}}
	if !proto.Equal(got, want) {
		t.Errorf("the request is %v, want %v", got, want)
	}
	if _, err := groupRequest(object{"args": tftypes.NewValue(texts, object{"a": text(nil)})}); err == nil {
		t.Error("a null among the values is taken")
	}
}
