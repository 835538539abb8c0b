package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService is the standard health check: a service serves while its server
// leads the shard and knows it. The answer is found when it is asked for, so it
// can't be late; there is no Watch for that reason.
type healthService struct {
	healthv1.UnimplementedHealthServer
	opts    Options
	service string
}

// Check answers for the listener's service, and for "", the server.
func (h *healthService) Check(_ context.Context, req *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if req.Service != "" && req.Service != h.service {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return h.now(), nil
}

// List answers for all services of the listener.
func (h *healthService) List(context.Context, *healthv1.HealthListRequest) (*healthv1.HealthListResponse, error) {
	now := h.now()
	return &healthv1.HealthListResponse{Statuses: map[string]*healthv1.HealthCheckResponse{"": now, h.service: now}}, nil
}

func (h *healthService) now() *healthv1.HealthCheckResponse {
	if _, err := h.opts.Shard.Term(); err != nil {
		return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_NOT_SERVING}
	}
	return &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING}
}
