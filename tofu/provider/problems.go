package provider

import (
	"context"
	"errors"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// schemaPaths says which attributes there are.
type schemaPaths interface {
	has(ctx context.Context, at path.Path) bool
}

// problem turns an error into a diagnostic, about the attribute that the server names.
func problem(ctx context.Context, summary string, err error, schema schemaPaths) diag.Diagnostic {
	if wrong, ok := errors.AsType[*valueError](err); ok {
		return diag.NewAttributeErrorDiagnostic(wrong.at, summary, wrong.text)
	}
	text := err.Error()
	st, ok := status.FromError(err)
	if !ok {
		return diag.NewErrorDiagnostic(summary, text)
	}
	for _, detail := range st.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetMetadata()["field"] == "" {
			continue
		}
		if at, ok := deepest(ctx, info.GetMetadata()["field"], schema); ok {
			return diag.NewAttributeErrorDiagnostic(at, summary, st.Message())
		}
	}
	return diag.NewErrorDiagnostic(summary, st.Message())
}

// deepest is the path of a field such as `demand.max`, as far as there are attributes.
func deepest(ctx context.Context, field string, schema schemaPaths) (at path.Path, ok bool) {
	for i, name := range strings.Split(field, ".") {
		next := at.AtName(name)
		if i == 0 {
			next = path.Root(name)
		}
		if !schema.has(ctx, next) {
			break
		}
		at, ok = next, true
	}
	return at, ok
}
