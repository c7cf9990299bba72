/// Files that are embedded in the program when it is compiled. They live with the module that uses them, and the preprocessor
/// reads them: an array literal of the same bytes, as SwiftPM generates it, takes the Swift compiler up to a minute.
#pragma once

#include <stddef.h>

/// The bytes of one file. Valid as long as the process runs.
typedef struct {
    const unsigned char *_Nonnull start;
    size_t count;
} EmbeddedFile;

/// schema.sql
EmbeddedFile embedded_schema_sql(void);
/// deploy/migrations/0002_endpoints_and_money.sql
EmbeddedFile embedded_migration_0002(void);
/// Sources/HTTPServer/OpenAPI/openapi.json
EmbeddedFile embedded_openapi_json(void);
/// Sources/Console/Assets/console.css
EmbeddedFile embedded_console_css(void);
/// Sources/Console/Assets/console.js
EmbeddedFile embedded_console_js(void);
/// Sources/AppStore/Certificates/AppleRootCA-G3.cer
EmbeddedFile embedded_apple_root(void);
