// Command openapi makes the OpenAPI 3 document of the HTTP API: of the one that
// protoc-gen-openapiv2 writes for the calls of one shard, and of what the gateway itself
// adds to it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	swagger := flag.String("swagger", "", "`FILE` that protoc-gen-openapiv2 wrote")
	out := flag.String("out", "", "`FILE` for the document")
	flag.Parse()
	if err := run(*swagger, *out); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func run(swagger, out string) error {
	data, err := os.ReadFile(swagger)
	if err != nil {
		return err
	}
	var v2 openapi2.T
	if err := json.Unmarshal(data, &v2); err != nil {
		return fmt.Errorf("read %s: %w", swagger, err)
	}
	calls, err := openapi2conv.ToV3(&v2)
	if err != nil {
		return fmt.Errorf("convert %s: %w", swagger, err)
	}
	doc, err := whole(calls)
	if err != nil {
		return err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	// Read as any reader does: references that lead nowhere are found here.
	loaded, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return fmt.Errorf("the document: %w", err)
	}
	if err := loaded.Validate(context.Background()); err != nil {
		return fmt.Errorf("the document: %w", err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", " "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	return os.WriteFile(out, indented.Bytes(), 0o644) //nolint:gosec // it is for everybody to read
}

// infoSchema is that of a message which the frame refers to.
const infoSchema = "GetServerInfoResponse"

// whole adds to the calls of one shard what is around them.
func whole(calls *openapi3.T) (*openapi3.T, error) {
	frame, err := openapi3.NewLoader().LoadFromData([]byte(frameText))
	if err != nil {
		return nil, fmt.Errorf("the frame: %w", err)
	}
	shardParameter := &openapi3.ParameterRef{Ref: "#/components/parameters/shard", Value: frame.Components.Parameters["shard"].Value}
	problem := &openapi3.ResponseRef{Ref: "#/components/responses/problem", Value: frame.Components.Responses["problem"].Value}
	for path, item := range calls.Paths.Map() {
		item.Parameters = append(openapi3.Parameters{shardParameter}, item.Parameters...)
		for _, operation := range item.Operations() {
			operation.Tags = nil
			operation.Responses.Set("default", problem)
			// A configuration may be sent as it is.
			if body := operation.RequestBody; body != nil && strings.HasSuffix(path, "config:plan") {
				body.Value.Content["application/jsonc"] = &openapi3.MediaType{Schema: openapi3.NewStringSchema().NewRef()}
			}
		}
		frame.Paths.Set("/v1/shards/{shard}"+path, item)
	}
	for name, schema := range calls.Components.Schemas {
		if frame.Components.Schemas[name] != nil && name != infoSchema {
			return nil, fmt.Errorf("schema %s: there are two of that name", name)
		}
		frame.Components.Schemas[name] = schema
	}
	return frame, nil
}
