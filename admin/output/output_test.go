package output_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

type instance = *nstancev1.InstanceStatus

var view = output.View[instance]{
	Name: instance.GetInstanceId,
	Columns: []output.Column[instance]{
		{Header: "INSTANCE", Value: instance.GetInstanceId},
		{Header: "STATUS", Value: instance.GetStatus},
		{Header: "TENANT", Wide: true, Value: instance.GetTenant},
	},
}

func instances(shard string) []output.Item[instance] {
	return []output.Item[instance]{
		{Shard: shard, Message: &nstancev1.InstanceStatus{
			InstanceId: "knc1", Tenant: "default", Status: "running", CreatedAt: &timestamppb.Timestamp{Seconds: 1777777777},
			Revision: 7, Addresses: []string{"10.0.0.1"},
		}},
		{Shard: shard, Message: &nstancev1.InstanceStatus{InstanceId: "knc23", Status: "a\tb\nc"}},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s (-update rewrites it); got:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestEachFormat(t *testing.T) {
	for _, format := range output.Formats() {
		t.Run(format, func(t *testing.T) {
			var b bytes.Buffer
			if err := output.List(&b, output.As(output.Kind(format)), view, instances("")); err != nil {
				t.Fatal(err)
			}
			golden(t, "list."+format, b.Bytes())

			b.Reset()
			if err := output.List(&b, output.As(output.Kind(format)), view, instances("s1")); err != nil {
				t.Fatal(err)
			}
			golden(t, "shards."+format, b.Bytes())

			b.Reset()
			if err := output.Object(&b, output.As(output.Kind(format)), view, instances("")[0]); err != nil {
				t.Fatal(err)
			}
			golden(t, "object."+format, b.Bytes())

			b.Reset()
			stream := output.NewStream(&b, output.As(output.Kind(format)), view)
			for _, item := range instances("s1") {
				if err := stream.Print(item); err != nil {
					t.Fatal(err)
				}
			}
			golden(t, "stream."+format, b.Bytes())
		})
	}
}

func TestAnEmptyListIsAnArray(t *testing.T) {
	for format, want := range map[output.Kind]string{output.JSON: "[]\n", output.YAML: "[]\n", output.Name: "", output.Table: "INSTANCE   STATUS\n"} {
		var b strings.Builder
		if err := output.List(&b, output.As(format), view, nil); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("%s: %q, want %q", format, b.String(), want)
		}
	}
}

func TestAShardIsAddedToAnyObject(t *testing.T) {
	var b bytes.Buffer
	item := output.Item[*nstancev1.AcknowledgeDrainedRequest]{Shard: "s1", Message: &nstancev1.AcknowledgeDrainedRequest{}}
	if err := output.Object(&b, output.As(output.JSON), output.View[*nstancev1.AcknowledgeDrainedRequest]{}, item); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got["shard"] != "s1" || len(got) != 5 {
		t.Errorf("%s, %v", b.String(), err)
	}
}

func TestFormatRefusesUnknownWords(t *testing.T) {
	var f output.Format
	if err := f.Set("xml"); err == nil || !strings.Contains(err.Error(), "table, wide, json, yaml, name") {
		t.Errorf("error is %v", err)
	}
	if err := f.Set("yaml"); err != nil || f.Kind() != output.YAML {
		t.Errorf("%v, %v", f.Kind(), err)
	}
}
