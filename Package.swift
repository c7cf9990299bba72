// swift-tools-version: 6.1
import PackageDescription

// The tests spend most of their time in the modules with this setting.
let optimisedInDebugBuilds: [SwiftSetting] = [.unsafeFlags(["-O"], .when(configuration: .debug))]

// A product that the libraries for others do not need. Who depends on this package with `traits: []` does not fetch it.
func serverProduct(_ name: String, _ package: String) -> Target.Dependency {
    .product(name: name, package: package, condition: .when(traits: ["Server"]))
}

let package = Package(
    name: "subledger",
    // For the client library; the server runs on Linux.
    platforms: [.iOS(.v15), .macOS(.v12)],
    products: [
        .executable(name: "subledger", targets: ["subledger"]),
        // For tests and first tries: it signs under public test keys, so no server has it.
        .executable(name: "store-simulator", targets: ["store-simulator"]),
        .library(name: "SubledgerClient", targets: ["SubledgerClient"]),
        // For receivers of webhooks.
        .library(name: "StandardWebhooks", targets: ["StandardWebhooks"]),
    ],
    traits: [
        .default(enabledTraits: ["Server"]),
        .trait(name: "Server", description: "The programs. Apps and receivers of webhooks need none of it."),
    ],
    dependencies: [
        // The command line: parsing, help, exit statuses.
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
        // The HTTP client: questions to the stores, OCSP requests, webhooks, and the simulator's notifications.
        .package(url: "https://github.com/swift-server/async-http-client.git", from: "1.24.0"),
        // DER, for the parts of certificates that X509 does not parse, and for receipts.
        .package(url: "https://github.com/apple/swift-asn1.git", from: "1.7.0"),
        // Certificates: parsing, path building, policies and OCSP; creating the simulator's certificates.
        .package(url: "https://github.com/apple/swift-certificates.git", from: "1.21.0"),
        // Settings from flags and environment variables through one reader; its file formats are not needed.
        .package(url: "https://github.com/apple/swift-configuration.git", from: "1.4.0", traits: []),
        // SHA-256, for dedupe keys and for comparing secrets in constant time; RSA, for Google's signatures.
        .package(url: "https://github.com/apple/swift-crypto.git", from: "4.5.0"),
        // The HTTP server, and that of the simulated stores.
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0"),
        // Logging.
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.0"),
        // Metrics, shared with the libraries that record their own.
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.13.0"),
        // TLS for the listeners, and for the connections to the stores and to endpoints.
        .package(url: "https://github.com/apple/swift-nio-ssl.git", from: "2.37.0"),
        // Starting and stopping the parts of the server in order.
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    ],
    targets: [
        // The commands of the product: flags and output.
        .executableTarget(
            name: "subledger",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "HTTPServer", "Outbound", "PlayStore", "Postgres", "Projector",
                "Readers", "Server", "StandardWebhooks", "StoreClient", "Subscriptions", "Verification",
                serverProduct("ArgumentParser", "swift-argument-parser"),
                serverProduct("Configuration", "swift-configuration"),
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("Logging", "swift-log"),
                serverProduct("Metrics", "swift-metrics"),
                serverProduct("ServiceLifecycle", "swift-service-lifecycle"),
            ]),
        // The command of the simulated stores. A run in step has a server of its own, on a simulated clock.
        .executableTarget(
            name: "store-simulator",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "HTTPServer", "PlayStore", "Postgres", "Readers", "Server",
                "Simulation", "StoreClient", "Subscriptions",
                serverProduct("ArgumentParser", "swift-argument-parser"),
                serverProduct("Logging", "swift-log"),
                serverProduct("ServiceLifecycle", "swift-service-lifecycle"),
            ]),
        // What a server process consists of: its settings, its database, and its services, wired to each other. Also what
        // the commands of both programs share: database flags, files, progress, exit statuses.
        .target(
            name: "Server",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "HTTPServer", "Outbound", "PlayStore", "Postgres", "Projector",
                "Readers", "StandardWebhooks", "StoreClient", "Subscriptions", "Verification",
                serverProduct("ArgumentParser", "swift-argument-parser"),
                serverProduct("AsyncHTTPClient", "async-http-client"),
                serverProduct("Configuration", "swift-configuration"),
                serverProduct("Logging", "swift-log"),
                serverProduct("Metrics", "swift-metrics"),
                serverProduct("ServiceLifecycle", "swift-service-lifecycle"),
                serverProduct("UnixSignals", "swift-service-lifecycle"),
            ]),
        // The public and the private listener, and their routes.
        .target(
            name: "HTTPServer",
            dependencies: [
                "AppStore", "CResources", "Console", "Encoding", "EventLog", "Outbound", "PlayStore", "Readers",
                "StandardWebhooks", "Subscriptions",
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("Hummingbird", "hummingbird"),
                serverProduct("HummingbirdCore", "hummingbird"),
                serverProduct("Logging", "swift-log"),
                serverProduct("Metrics", "swift-metrics"),
                serverProduct("NIOSSL", "swift-nio-ssl"),
                serverProduct("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            exclude: ["OpenAPI/asyncapi.json", "OpenAPI/openapi.json"]),
        // The console's pages: values of readers in, HTML and CSV out. HTML is written by a typed builder of its own: a
        // misspelt name does not compile, links are made only from addresses of the console, and drawings are computed.
        .target(
            name: "Console",
            dependencies: ["CResources", "Encoding", "EventLog", "Readers", "Subscriptions"],
            exclude: ["Assets"]),
        // Decodes and verifies Apple's notifications, and turns them into events.
        .target(
            name: "AppStore",
            dependencies: [
                "CResources", "Encoding", "Subscriptions",
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("SwiftASN1", "swift-asn1"),
                serverProduct("X509", "swift-certificates"),
            ],
            exclude: ["Certificates/AppleRootCA-G3.cer"]),
        // Decodes and verifies Google's pushes and answers, and turns them into events.
        .target(
            name: "PlayStore",
            dependencies: [
                "Encoding", "Subscriptions",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        // The domain: facts, folding, access, customers. No input or output.
        .target(name: "Subscriptions", dependencies: ["Encoding"], swiftSettings: optimisedInDebugBuilds),
        // Formats independent of the domain: JSON, Base64, hexadecimal digits, instants, byte strings.
        .target(name: "Encoding", swiftSettings: optimisedInDebugBuilds),
        // A simulated App Store and a simulated Google Play: their books and stories, what they send, their servers, and the
        // comparison of a ledger's answers with the books. Also for users, since the stores' own test environments cannot
        // produce most notifications.
        .target(
            name: "Simulation",
            dependencies: [
                "Encoding", "Subscriptions",
                serverProduct("AsyncHTTPClient", "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                serverProduct("Hummingbird", "hummingbird"),
                serverProduct("Logging", "swift-log"),
                serverProduct("ServiceLifecycle", "swift-service-lifecycle"),
                serverProduct("SwiftASN1", "swift-asn1"),
                serverProduct("X509", "swift-certificates"),
            ], swiftSettings: optimisedInDebugBuilds),
        // Asks the App Store and Google Play, within budgets, and stores their answers.
        .target(
            name: "StoreClient",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "PlayStore", "Readers", "Subscriptions",
                serverProduct("AsyncHTTPClient", "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("Logging", "swift-log"),
                serverProduct("Metrics", "swift-metrics"),
                serverProduct("NIOSSL", "swift-nio-ssl"),
            ]),
        // Delivers changes to endpoints, and passes notifications on.
        .target(
            name: "Outbound",
            dependencies: [
                "Encoding", "EventLog", "Postgres", "Readers", "StandardWebhooks", "StoreClient", "Subscriptions",
                serverProduct("AsyncHTTPClient", "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("Logging", "swift-log"),
                serverProduct("Metrics", "swift-metrics"),
                serverProduct("NIOSSL", "swift-nio-ssl"),
            ]),
        // Checks log and projections against the bodies and their signatures.
        .target(
            name: "Verification",
            dependencies: ["AppStore", "Encoding", "EventLog", "PlayStore", "Postgres", "Projector", "Subscriptions"]),
        // Appends events to the log and reads them; what is to be asked of the stores, and what came of it; owns the schema.
        .target(
            name: "EventLog",
            dependencies: [
                "CResources", "Encoding", "Postgres", "Subscriptions",
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("Logging", "swift-log"),
                serverProduct("Metrics", "swift-metrics"),
            ]),
        // Folds the log into the projections, and keeps them up to date.
        .target(
            name: "Projector",
            dependencies: [
                "Encoding", "EventLog", "Postgres", "Subscriptions",
                serverProduct("Logging", "swift-log"),
                serverProduct("Metrics", "swift-metrics"),
            ]),
        // The queries of those who read: subscriptions, customers, changes, configured products, the console's lists and
        // figures, explanations.
        .target(
            name: "Readers",
            dependencies: [
                "Encoding", "EventLog", "Postgres", "Subscriptions",
                serverProduct("Logging", "swift-log"),
            ]),
        // Signs and verifies webhooks by Standard Webhooks 1.0.0. Also for receivers, so it depends on nothing else here.
        .target(name: "StandardWebhooks", dependencies: [.product(name: "Crypto", package: "swift-crypto")]),
        // A PostgreSQL client over libpq, and the private PostgreSQL server.
        .target(
            name: "Postgres",
            dependencies: ["CLibpq", serverProduct("Logging", "swift-log")], swiftSettings: optimisedInDebugBuilds),
        // Files that are embedded in the program: schema.sql, the OpenAPI document, the console's files, Apple's root.
        .target(name: "CResources"),
        .systemLibrary(name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        // A library for apps: hands purchases in, and knows what the user is entitled to. It shares no code with the server.
        .target(name: "SubledgerClient", dependencies: [.product(name: "Crypto", package: "swift-crypto")]),
        .target(
            name: "TestSupport",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "PlayStore", "Postgres", "Simulation", "Subscriptions",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                serverProduct("Logging", "swift-log"),
                serverProduct("SwiftASN1", "swift-asn1"),
                serverProduct("X509", "swift-certificates"),
            ],
            path: "Tests/TestSupport"),
        // Properties that hold for every input of the decoder and the verifier.
        .target(
            name: "DecoderProperties", dependencies: ["AppStore", "Encoding", "Subscriptions"],
            path: "Tests/DecoderProperties"),
        .executableTarget(
            name: "Benchmarks",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "HTTPServer", "PlayStore", "Postgres", "Projector", "Readers",
                "Simulation", "StoreClient", "Subscriptions", "TestSupport",
                serverProduct("ArgumentParser", "swift-argument-parser"),
                serverProduct("AsyncHTTPClient", "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("Hummingbird", "hummingbird"),
                serverProduct("Logging", "swift-log"),
            ],
            path: "Tests/Benchmarks",
            exclude: ["Receiver/send.lua"]),
        .executableTarget(
            name: "Storm",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "Postgres", "Projector", "Simulation", "Subscriptions",
                "TestSupport",
                serverProduct("ArgumentParser", "swift-argument-parser"),
                serverProduct("AsyncHTTPClient", "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("Logging", "swift-log"),
            ],
            path: "Tests/Storm"),
        // An app without a screen, which tests and deploy/client-conformance run.
        .executableTarget(name: "ClientSample", dependencies: ["SubledgerClient"], path: "Tests/ClientSample"),
        .testTarget(
            name: "SubledgerClientTests",
            dependencies: ["SubledgerClient", .product(name: "Crypto", package: "swift-crypto")],
            // Compiles the adapter for StoreKit against a stub.
            swiftSettings: [.define("STOREKIT_STUB", .when(platforms: [.linux]))]),
        .testTarget(name: "EncodingTests", dependencies: ["Encoding", "TestSupport"]),
        .testTarget(
            name: "OutboundTests", dependencies: ["Encoding", "Outbound", "StandardWebhooks", "Subscriptions"]),
        .testTarget(
            name: "StandardWebhooksTests",
            dependencies: ["StandardWebhooks", .product(name: "Crypto", package: "swift-crypto")],
            exclude: ["Fixtures/README.md", "Fixtures/reference.py"], resources: [.copy("Fixtures/reference.json")]),
        .testTarget(name: "SubscriptionsTests", dependencies: ["Encoding", "Subscriptions", "TestSupport"]),
        .testTarget(
            name: "AppStoreTests",
            dependencies: [
                "AppStore", "DecoderProperties", "Encoding", "Simulation", "Subscriptions", "TestSupport",
                .product(name: "Crypto", package: "swift-crypto"),
                serverProduct("SwiftASN1", "swift-asn1"),
                serverProduct("X509", "swift-certificates"),
            ],
            resources: [.copy("Fixtures")]),
        .testTarget(
            name: "PlayStoreTests",
            dependencies: [
                "Encoding", "PlayStore", "Subscriptions", "TestSupport",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "AppStore", "Encoding", "PlayStore", "Simulation", "Subscriptions", "TestSupport",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                serverProduct("Logging", "swift-log"),
                serverProduct("SwiftASN1", "swift-asn1"),
                serverProduct("X509", "swift-certificates"),
            ]),
        .testTarget(
            name: "StoreClientTests",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "HTTPServer", "PlayStore", "Simulation", "StoreClient",
                "Subscriptions", "TestSupport",
                .product(name: "CryptoExtras", package: "swift-crypto"),
                serverProduct("Hummingbird", "hummingbird"),
                serverProduct("Logging", "swift-log"),
            ]),
        .testTarget(
            name: "PostgresTests",
            dependencies: ["Postgres", "TestSupport", serverProduct("Logging", "swift-log")]),
        .testTarget(
            name: "ConsoleTests", dependencies: ["Console", "Encoding", "EventLog", "Readers", "Subscriptions"],
            resources: [.copy("Fixtures")]),
        .testTarget(
            name: "EventLogTests",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "Postgres", "Simulation", "Subscriptions", "TestSupport",
            ]),
        .testTarget(
            name: "IntegrationTests",
            dependencies: [
                "AppStore", "Encoding", "EventLog", "HTTPServer", "Outbound", "PlayStore", "Postgres", "Projector",
                "Readers", "Server", "Simulation", "StandardWebhooks", "StoreClient", "SubledgerClient",
                "Subscriptions", "TestSupport", "Verification", "store-simulator", "subledger",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                serverProduct("Hummingbird", "hummingbird"),
                serverProduct("Logging", "swift-log"),
                serverProduct("X509", "swift-certificates"),
            ],
            exclude: ["Fixtures"]),
        .testTarget(
            name: "FaultTests",
            dependencies: [
                "Postgres", "TestSupport", "subledger",
                serverProduct("Hummingbird", "hummingbird"),
                serverProduct("Logging", "swift-log"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)

// The fuzz target has libFuzzer's main function and needs instrumented modules, so it is added only on request: see
// deploy/fuzz.
if Context.environment["SUBLEDGER_FUZZ"] != nil {
    // Coverage for libFuzzer, memory checks, and the bounds checks of unsafe buffers that release builds omit.
    let instrumented: [SwiftSetting] = [
        .unsafeFlags(["-sanitize=fuzzer,address", "-assert-config", "Debug"])
    ]
    for target in package.targets
    where ["AppStore", "DecoderProperties", "Encoding", "Subscriptions"].contains(target.name) {
        target.swiftSettings = instrumented
    }
    package.targets.append(
        .executableTarget(
            name: "FuzzDecoder", dependencies: ["DecoderProperties"], path: "Tests/FuzzDecoder",
            exclude: ["Corpus", "apple.dict"], swiftSettings: instrumented,
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer,address"])]))
}
