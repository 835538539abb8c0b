package main

// frameText is the document without the calls of a shard.
const frameText = `{
"openapi": "3.0.3",
"info": {
  "title": "Nstance",
  "version": "v1",
  "description": "Groups and instances of the shards of a cluster, for one tenant: the one of the caller's client certificate or token. Messages are those of the gRPC service nstance.v1.OperatorService in the JSON of protocol buffers: fields that are zero are left out, 64-bit numbers are strings, times are of RFC 3339. GET changes nothing. Every call may be repeated; to create an instance, send an id of your own."
},
"security": [{"token": []}, {"certificate": []}],
"paths": {
  "/health": {"get": {"operationId": "Health", "summary": "Whether the API is up. Needs no token.", "security": [],
    "responses": {"200": {"description": "It is.", "content": {"text/plain": {"schema": {"type": "string", "enum": ["ok\n"]}}}}}}},
  "/openapi.json": {"get": {"operationId": "Document", "summary": "This document.",
    "responses": {"200": {"description": "OpenAPI 3.", "content": {"application/json": {"schema": {"type": "object"}}}}, "default": {"$ref": "#/components/responses/problem"}}}},
  "/v1/shards": {"get": {"operationId": "ListShards", "summary": "The shards, with their leaders, or why one can't be reached.",
    "responses": {"200": {"description": "All shards, by name.", "content": {"application/json": {"schema": {"type": "object", "required": ["shards"], "properties": {"shards": {"type": "array", "items": {"$ref": "#/components/schemas/ShardEntry"}}}}}}}, "default": {"$ref": "#/components/responses/problem"}}}},
  "/v1/shards/{shard}/watch/groups": {"get": {"operationId": "WatchGroups", "summary": "All groups as UPSERT, then every change. Data of the event 'group' is a GroupEvent.",
    "parameters": [{"$ref": "#/components/parameters/shard"}], "responses": {"200": {"$ref": "#/components/responses/events"}, "default": {"$ref": "#/components/responses/problem"}}}},
  "/v1/shards/{shard}/watch/instances": {"get": {"operationId": "WatchInstances", "summary": "The instances that are being removed, snapshot_end, then what happens to any. Data of the event 'instance' is an InstanceEvent.",
    "parameters": [{"$ref": "#/components/parameters/shard"}, {"name": "coordinatesDrains", "in": "query", "description": "The caller moves work away from condemned instances and says so with :drained. Needs a caller who may write.", "schema": {"type": "boolean"}}],
    "responses": {"200": {"$ref": "#/components/responses/events"}, "default": {"$ref": "#/components/responses/problem"}}}},
  "/v1/shards/{shard}/watch/errors": {"get": {"operationId": "WatchErrors", "summary": "Errors as they happen. Data of the event 'failure' is an ErrorEvent.",
    "parameters": [{"$ref": "#/components/parameters/shard"}], "responses": {"200": {"$ref": "#/components/responses/events"}, "default": {"$ref": "#/components/responses/problem"}}}},
  "/v1/shards/{shard}/watch/machines": {"get": {"operationId": "WatchMachines", "summary": "What is known of each host machine, snapshot_end, then every change. Data of the event 'machine' is a MachineEvent.",
    "parameters": [{"$ref": "#/components/parameters/shard"}], "responses": {"200": {"$ref": "#/components/responses/events"}, "default": {"$ref": "#/components/responses/problem"}}}},
  "/config/status": {"get": {"operationId": "ConfigStatus", "summary": "Which configuration is in force, of one shard or of all.",
    "parameters": [{"$ref": "#/components/parameters/oneShard"}, {"$ref": "#/components/parameters/allShards"}],
    "responses": {"200": {"$ref": "#/components/responses/configs"}, "207": {"$ref": "#/components/responses/configs"}, "502": {"$ref": "#/components/responses/configs"}, "default": {"$ref": "#/components/responses/problem"}}}},
  "/config/refresh": {"post": {"operationId": "ConfigRefresh", "summary": "Has the configuration read again, by one shard or by all.",
    "parameters": [{"$ref": "#/components/parameters/oneShard"}, {"$ref": "#/components/parameters/allShards"}],
    "responses": {"200": {"$ref": "#/components/responses/refreshes"}, "207": {"$ref": "#/components/responses/refreshes"}, "502": {"$ref": "#/components/responses/refreshes"}, "default": {"$ref": "#/components/responses/problem"}}}},
  "/group/scale": {"post": {"operationId": "GroupScale", "summary": "Sets the size of a group, in one shard or in each.",
    "parameters": [{"$ref": "#/components/parameters/oneShard"}, {"$ref": "#/components/parameters/allShards"}],
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "required": ["group", "size"], "additionalProperties": false, "properties": {"group": {"type": "string"}, "size": {"type": "integer", "format": "int32"}}}}}},
    "responses": {"200": {"$ref": "#/components/responses/scales"}, "207": {"$ref": "#/components/responses/scales"}, "502": {"$ref": "#/components/responses/scales"}, "default": {"$ref": "#/components/responses/problem"}}}}
},
"components": {
  "securitySchemes": {
    "token": {"type": "http", "scheme": "bearer", "description": "Made with nstance-admin token create."},
    "certificate": {"type": "http", "scheme": "mutual", "description": "A client certificate of the cluster, of an operator or a viewer."}
  },
  "parameters": {
    "shard": {"name": "shard", "in": "path", "required": true, "description": "Name of the shard.", "schema": {"type": "string"}},
    "oneShard": {"name": "shard", "in": "query", "description": "Name of the shard; may be left out where there is only one.", "schema": {"type": "string"}},
    "allShards": {"name": "all_shards", "in": "query", "description": "All shards.", "schema": {"type": "boolean"}}
  },
  "responses": {
    "problem": {"description": "What went wrong: google.rpc.Status, with the name of its code and its reason.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}},
    "events": {"description": "Server-sent events. A stream that ends by itself sends the event 'end' with a Problem before; open it again for a new snapshot.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
    "configs": {"description": "An entry for each shard; 207 where some failed, 502 where all did.", "content": {"application/json": {"schema": {"type": "object", "required": ["shards"], "properties": {"shards": {"type": "array", "items": {"type": "object", "required": ["shard"], "properties": {"shard": {"type": "string"}, "etag": {"type": "string"}, "last_modified": {"type": "string", "format": "date-time"}, "size": {"type": "integer"}, "error": {"type": "string"}}}}}}}}},
    "refreshes": {"description": "An entry for each shard; 207 where some failed, 502 where all did.", "content": {"application/json": {"schema": {"type": "object", "required": ["shards"], "properties": {"shards": {"type": "array", "items": {"type": "object", "required": ["shard", "updated"], "properties": {"shard": {"type": "string"}, "updated": {"type": "boolean"}, "etag": {"type": "string"}, "error": {"type": "string"}}}}}}}}},
    "scales": {"description": "An entry for each shard; 207 where some failed, 502 where all did.", "content": {"application/json": {"schema": {"type": "object", "required": ["results"], "properties": {"results": {"type": "array", "items": {"type": "object", "required": ["shard", "group"], "properties": {"shard": {"type": "string"}, "group": {"type": "string"}, "size": {"type": "integer"}, "error": {"type": "string"}}}}}}}}}
  },
  "schemas": {
    "Problem": {"type": "object", "required": ["code", "status", "message"], "properties": {
      "code": {"type": "integer", "description": "Code of gRPC."},
      "status": {"type": "string", "description": "Name of the code."},
      "message": {"type": "string", "description": "For people."},
      "reason": {"type": "string", "description": "For programs, such as UNKNOWN_GROUP."},
      "details": {"type": "array", "items": {"type": "object"}}}},
    "ShardEntry": {"type": "object", "required": ["shard", "connected"], "properties": {
      "shard": {"type": "string"},
      "connected": {"type": "boolean", "description": "Whether its leader has answered."},
      "error": {"type": "string"},
      "leader": {"type": "string", "description": "Address of the leader."},
      "info": {"$ref": "#/components/schemas/GetServerInfoResponse"}}},
    "GetServerInfoResponse": {"type": "object"}
  }
}
}`
