// An MCP server on stdio, which is built twice: linked statically, for an image without a shell, and linked to musl.
package main

import (
	"context"
	"log"
	"os"
	"regexp"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a process of musl has loaded.
var muslLoader = regexp.MustCompile(`ld-musl-[a-z0-9_]+\.so\.1`)

type answer struct {
	Loader  string `json:"loader" jsonschema:"file name of musl's loader; empty if the process has not loaded it"`
	Process int    `json:"process" jsonschema:"id of the process in its container"`
}

func describe(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, answer, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	return nil, answer{string(muslLoader.Find(maps)), os.Getpid()}, err
}

func exit(_ context.Context, _ *mcp.CallToolRequest, input struct {
	Code int `json:"code" jsonschema:"exit code of the process"`
}) (*mcp.CallToolResult, any, error) {
	log.Print("ends with code " + strconv.Itoa(input.Code))
	os.Exit(input.Code)
	return nil, nil, nil
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "describe", Description: "Describes the process."}, describe)
	mcp.AddTool(server, &mcp.Tool{Name: "exit", Description: "Ends the process."}, exit)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
