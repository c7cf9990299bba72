import Testing

@testable import Postgres

@Suite("a connection's configuration")
struct ConnectionConfigurationTests {
    @Test(
        "URLs and pairs are parsed as by psql, and no description contains the password",
        arguments: [
            "postgres://jo:canary@db.example:6432/ledger?sslmode=require",
            "postgresql://jo:canary@db.example:6432/ledger?sslmode=require",
            "host=db.example port=6432 user=jo password=canary dbname=ledger sslmode=require",
        ]
    )
    func parsing(url: String) throws {
        let configuration = ConnectionConfiguration(url: url).with(role: "writer")

        let parameters = Dictionary(
            uniqueKeysWithValues: try #require(configuration.parameters()).map { ($0.key, $0.value) }
        )
        #expect(parameters["host"] == "db.example" && parameters["port"] == "6432" && parameters["user"] == "jo")
        #expect(parameters["password"] == "canary" && parameters["sslmode"] == "require")
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in ["\(configuration)", String(reflecting: configuration), "\([configuration])", dumped] {
            #expect(!text.contains("canary") && !text.contains("db.example"))
        }
    }

    @Test("options in the URL are kept, and spaces in settings are escaped")
    func options() throws {
        var configuration = ConnectionConfiguration(url: "postgres:///d?options=-c%20work_mem%3D1MB")
        configuration.sessionSettings = ["search_path": "a b", "enable_seqscan": "off"]
        configuration.role = "a b\\c"

        let parameters = try #require(configuration.parameters())
        let options = try #require(parameters.first { $0.key == "options" }?.value)

        #expect(options.hasPrefix("-c work_mem=1MB "))
        #expect(options.contains("-c enable_seqscan=off -c search_path=a\\ b"))
        #expect(options.contains("-c role=a\\ b\\\\c"))
    }

    @Test("connecting with an invalid connection string throws unavailable")
    func invalid() async throws {
        let configuration = ConnectionConfiguration(url: "postgres://[canary")
        #expect(!configuration.isValid)

        let error = try await failure { () throws(PostgresError) in
            try await PostgresConnection.connect(configuration, deadline: soon())
        }

        #expect(error.kind == .unavailable && !error.debugDescription.contains("canary"))
    }
}

@Suite("errors")
struct PostgresErrorTests {
    @Test(
        "a server that is unavailable, busy or broken is transient; a rejected statement and damaged data are not",
        arguments: [
            ("08006", true), ("53300", true), ("57P01", true), ("57P03", true), ("57014", true), ("55P03", true),
            ("54000", true), ("58P01", true), ("58030", true), ("XX000", true), ("XX001", false), ("XX002", false),
            ("23505", false), ("42501", false), ("55006", false),
        ]
    )
    func transient(sqlstate: String, isTransient: Bool) {
        #expect(PostgresError(.server(sqlstate: sqlstate)).isTransient == isTransient)
        #expect(PostgresError(.server(sqlstate: sqlstate)).sqlstate == sqlstate)
    }

    @Test("a list of hosts is taken apart only if a kind of server is wanted and the lists fit")
    func hosts() throws {
        func apart(_ url: String) -> [[String]] {
            ConnectionConfiguration(url: url).preferences().map { hosts in
                hosts.map { host in
                    let parameters = Dictionary(
                        uniqueKeysWithValues: (host.parameters() ?? []).map { ($0.key, $0.value) })
                    return ["host", "port", "target_session_attrs"].map { parameters[$0] ?? "" }
                        .joined(separator: " ")
                }
            }
        }

        #expect(
            apart("postgres://a:1,b:2/d?target_session_attrs=read-write") == [["a 1 read-write", "b 2 read-write"]])
        #expect(apart("host=a,b port=7 target_session_attrs=standby") == [["a 7 standby", "b 7 standby"]])
        #expect(
            apart("host=a,b target_session_attrs=prefer-standby")
                == [["a  standby", "b  standby"], ["a  any", "b  any"]])
        #expect(apart("host=a,b") == [["a,b  "]])
        #expect(apart("host=a,b,c port=1,2 target_session_attrs=primary") == [["a,b,c 1,2 primary"]])
        #expect(apart("host=a target_session_attrs=primary") == [["a  primary"]])
    }

    @Test("the wait for one of several hosts is connect_timeout, or two seconds")
    func hostWait() {
        #expect(ConnectionConfiguration(url: "host=a,b").hostWait == .seconds(2))
        #expect(ConnectionConfiguration(url: "host=a,b connect_timeout=5").hostWait == .seconds(5))
        #expect(ConnectionConfiguration(url: "host=a,b connect_timeout=0").hostWait == .seconds(2))
    }
}
