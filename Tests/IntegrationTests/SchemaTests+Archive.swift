extension SchemaTests {
    private static func file(
        month: String = "2026-03-01", file: String = "a.bodies", state: String = "kept", digest: String = "sha256('f')",
        first: String = "1", last: String = "9", bodies: String = "9"
    ) -> String {
        """
        insert into subledger.event_archive (
          stream_id, month, file, state, written_at, file_sha256, file_bytes, first_position, last_position, bodies
        ) values (1, '\(month)', '\(file)', '\(state)', now(), \(digest), 100, \(first), \(last), \(bodies))
        """
    }

    static let brokenArchive = [
        Broken(constraint: "event_archive_pkey", sqlstate: "23505", statement: "\(file()); \(file())"),
        Broken(constraint: "event_archive_month_check", sqlstate: "23514", statement: file(month: "2026-03-02")),
        Broken(constraint: "event_archive_file_check", sqlstate: "23514", statement: file(file: "../a")),
        Broken(constraint: "event_archive_file_check", sqlstate: "23514", statement: file(file: ".a")),
        Broken(constraint: "event_archive_state_check", sqlstate: "23514", statement: file(state: "lost")),
        Broken(constraint: "event_archive_content_check", sqlstate: "23514", statement: file(state: "writing")),
        Broken(constraint: "event_archive_content_check", sqlstate: "23514", statement: file(digest: "null")),
        Broken(constraint: "event_archive_file_sha256_check", sqlstate: "23514", statement: file(digest: "'f'")),
        Broken(
            constraint: "event_archive_positions_check", sqlstate: "23514", statement: file(first: "0", bodies: "1")),
        Broken(constraint: "event_archive_bodies_check", sqlstate: "23514", statement: file(bodies: "10")),
        Broken(constraint: "event_archive_bodies_check", sqlstate: "23514", statement: file(bodies: "0")),
    ]
}
