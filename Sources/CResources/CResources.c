#include "CResources.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

#if !defined(__has_embed)
#error "this compiler has no #embed: use the clang of a newer Swift toolchain"
#endif

static const unsigned char schema_sql[] = {
#embed "../../schema.sql"
};
static const unsigned char migration_0002[] = {
#embed "../../deploy/migrations/0002_endpoints_and_money.sql"
};
static const unsigned char openapi_json[] = {
#embed "../HTTPServer/OpenAPI/openapi.json"
};
static const unsigned char console_css[] = {
#embed "../Console/Assets/console.css"
};
static const unsigned char console_js[] = {
#embed "../Console/Assets/console.js"
};
static const unsigned char apple_root[] = {
#embed "../AppStore/Certificates/AppleRootCA-G3.cer"
};

#define EMBEDDED_FILE(bytes) ((EmbeddedFile){bytes, sizeof bytes})

EmbeddedFile embedded_schema_sql(void) { return EMBEDDED_FILE(schema_sql); }
EmbeddedFile embedded_migration_0002(void) { return EMBEDDED_FILE(migration_0002); }
EmbeddedFile embedded_openapi_json(void) { return EMBEDDED_FILE(openapi_json); }
EmbeddedFile embedded_console_css(void) { return EMBEDDED_FILE(console_css); }
EmbeddedFile embedded_console_js(void) { return EMBEDDED_FILE(console_js); }
EmbeddedFile embedded_apple_root(void) { return EMBEDDED_FILE(apple_root); }
